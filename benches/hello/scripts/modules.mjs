import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const { positionals } = parseArgs({ allowPositionals: true });
const own = path.basename(fileURLToPath(import.meta.url));
const digest = createHash("sha256").update(readFileSync(import.meta.filename)).digest("hex").slice(0, 8);
console.log(JSON.stringify([own, positionals, tmpdir(), digest]));
console.log("hello");
