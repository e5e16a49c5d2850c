// Runs Azurite for as long as standard input stays open. The parent holds the other end, so the emulator ends with
// its parent however that dies, SIGKILL included, on every system.
process.stdin.on("end", () => process.exit(0));
process.stdin.on("error", () => process.exit(0));
process.stdin.resume();
require("azurite/dist/src/azurite.js");
