// Runs Azurite until standard input is closed. The parent process holds the other end, so the emulator ends with its
// parent on every system, even if the parent is killed.
process.stdin.on("end", () => process.exit(0));
process.stdin.on("error", () => process.exit(0));
process.stdin.resume();
require("azurite/dist/src/azurite.js");
