// argv: src
const { readdirSync, readFileSync, statSync } = require('fs'); const { join, extname } = require('path');
const walk = (dir) => readdirSync(dir).sort().flatMap((n) => { const p = join(dir, n); return statSync(p).isDirectory() ? walk(p) : [p]; });
const found = walk(process.argv[2]).filter((p) => ['.js', '.ts', '.py'].includes(extname(p))).flatMap((p) => readFileSync(p, 'utf8').split('\n').flatMap((l, i) => { const m = /\b(TODO|FIXME|HACK)\b(?:\((\w+)\))?:?\s*(.*)/.exec(l); return m ? [{ file: p, line: i + 1, kind: m[1], who: m[2] ?? '-', text: m[3].trim() }] : []; }));
console.table(found); console.log(Object.fromEntries(Object.entries(Object.groupBy(found, (f) => f.kind)).map(([k, v]) => [k, v.length])));
//// file: src/a.js
// TODO(ann): write tests
x = 1 // FIXME broken
//// file: src/sub/b.py
# HACK: works for now
//// file: src/sub/c.txt
TODO ignored
