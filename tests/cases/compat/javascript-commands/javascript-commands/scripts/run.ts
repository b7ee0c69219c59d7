import { execSync, spawn as start, exec } from "node:child_process";
import { promisify } from "node:util";

const run = promisify(exec);
console.log(execSync("git log --oneline | head -3").toString());
await run(`ffmpeg -i ${process.argv[2]} out.mp4`);
start("python3", ["-c", "print(1)"]);
start("npx", ["tsx", "scripts/other.ts"], { stdio: "inherit" });
