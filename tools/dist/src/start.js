#!/usr/bin/env node
// Starts the program of the platform's package, and ends as it ends.
"use strict";

const { spawn } = require("node:child_process");
const os = require("node:os");
const path = require("node:path");

const platform = `skillhost-${process.platform}-${process.arch}`;
let folder;
try {
  folder = path.dirname(require.resolve(`${platform}/package.json`));
} catch {
  console.error(
    `error: the package ${platform} is not installed\n` +
      `  help: install it beside this package, if it exists for this machine: npm install ${platform}`,
  );
  process.exit(70);
}

const program = spawn(path.join(folder, "bin", "skillhost"), process.argv.slice(2), {
  stdio: "inherit",
});
// A terminal sends Ctrl-C to both processes; the program decides what it means.
for (const signal of ["SIGINT", "SIGQUIT"]) process.on(signal, () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => program.kill(signal));
program.on("error", (error) => {
  console.error(`error: cannot start ${program.spawnfile}: ${error.message}`);
  process.exit(70);
});
program.on("exit", (code, signal) => {
  process.exit(signal ? 128 + os.constants.signals[signal] : code);
});
