// Opens a page of this machine in Chromium, and prints as JSON what is seen: look.mjs PAGE SCREENSHOT
// The environment variable makes the package unpack the libraries that a system may lack.
process.env.AWS_EXECUTION_ENV ??= "AWS_Lambda_nodejs20.x";
const { default: chromium } = await import("@sparticuz/chromium");
const { default: puppeteer } = await import("puppeteer-core");
const [page_url, screenshot] = process.argv.slice(2);
const browser = await puppeteer.launch({
  args: chromium.args,
  executablePath: await chromium.executablePath(),
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
