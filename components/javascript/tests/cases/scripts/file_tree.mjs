// argv: . --ignore node_modules,.git
import { readdir, stat } from 'node:fs/promises';
import { join, extname, relative } from 'node:path';

const root = process.argv[2];
const ignored = new Set(process.argv[process.argv.indexOf('--ignore') + 1].split(','));
async function* walk(dir) {
  for (const entry of (await readdir(dir, { withFileTypes: true })).sort((a, b) => (a.name < b.name ? -1 : 1))) {
    if (ignored.has(entry.name)) continue;
    const path = join(dir, entry.name);
    if (entry.isDirectory()) yield* walk(path);
    else yield path;
  }
}
async function tree(dir, prefix = '') {
  const entries = (await readdir(dir, { withFileTypes: true })).filter((e) => !ignored.has(e.name)).sort((a, b) => b.isDirectory() - a.isDirectory() || (a.name < b.name ? -1 : 1));
  for (const [i, entry] of entries.entries()) {
    const last = i === entries.length - 1;
    console.log(`${prefix}${last ? '└── ' : '├── '}${entry.name}${entry.isDirectory() ? '/' : ''}`);
    if (entry.isDirectory()) await tree(join(dir, entry.name), prefix + (last ? '    ' : '│   '));
  }
}
console.log(root); await tree(root);
const sizes = {};
for await (const path of walk(root)) { const ext = extname(path) || '(none)'; sizes[ext] = (sizes[ext] ?? 0) + (relative(root, path) === 'file_tree.mjs' ? 0 : (await stat(path)).size); }
console.log(sizes);
//// file: src/index.js
console.log(1)
//// file: src/lib/util.js
x
//// file: docs/a.md
hello
//// file: LICENSE
none
//// file: node_modules/x/index.js
skipped
