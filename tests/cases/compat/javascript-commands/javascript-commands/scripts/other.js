const cp = require("child_process");
cp.execFileSync(process.execPath, ["./scripts/run.ts"]);
cp.spawnSync("jq .name package.json", { shell: true });
cp.fork("./missing.js");
