// Opens a page of this machine in Chromium, and prints as JSON what is seen: look.mjs PAGE SCREENSHOT
import { readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

// This makes the package unpack the libraries that a system may lack.
process.env.AWS_EXECUTION_ENV ??= "AWS_Lambda_nodejs20.x";
const { default: chromium } = await import("@sparticuz/chromium");
const { default: puppeteer } = await import("puppeteer-core");
const [page_url, screenshot] = process.argv.slice(2);
const executablePath = await chromium.executablePath();
// The package unpacks its fonts into the folder for temporary files, but their configuration names /tmp.
const fonts = join(tmpdir(), "fonts", "fonts.conf");
writeFileSync(fonts, readFileSync(fonts, "utf8").replaceAll(">/tmp/fonts", `>${join(tmpdir(), "fonts")}`));
const browser = await puppeteer.launch({
  args: chromium.args,
  executablePath,
  headless: "shell",
});
try {
  const page = await browser.newPage();
  const errors = [];
  const requests = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  page.on("request", (request) => requests.push(request.url()));
  await page.setViewport({ width: 1280, height: 900 });
  await page.goto(page_url);
  const seen = await page.evaluate(() => ({
    title: document.title,
    text: document.body.innerText,
    width: document.documentElement.scrollWidth,
    // what is drawn, as far as it has a size
    drawn: Object.fromEntries(
      ["rect", "circle", "polyline"].map((name) => [
        name,
        [...document.querySelectorAll(name)].filter((each) => each.getBoundingClientRect().width > 0).length,
      ]),
    ),
  }));
  await page.screenshot({ path: screenshot, fullPage: true });
  console.log(JSON.stringify({ ...seen, errors, requests }));
} finally {
  await browser.close();
}
