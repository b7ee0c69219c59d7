// argv: photos --pattern '{n}-{name}' --apply
const fs = require('fs'), path = require('path'); const [dir, ...flags] = process.argv.slice(2); const pattern = flags[flags.indexOf('--pattern') + 1], apply = flags.includes('--apply'); const pad = String(fs.readdirSync(dir).length).length + 1; const plan = fs.readdirSync(dir).sort((a, b) => a.localeCompare(b, 'en', { numeric: true })).map((f, i) => { const { name, ext } = path.parse(f); return [f, pattern.replace('{n}', String(i + 1).padStart(pad, '0')).replace('{name}', name.toLowerCase().replace(/\s+/g, '_')) + ext.toLowerCase()]; }); for (const [from, to] of plan) { console.log(`${from} -> ${to}`); if (apply) fs.renameSync(path.join(dir, from), path.join(dir, to)); } console.log(fs.readdirSync(dir).sort());
//// file: photos/IMG 10.JPG
ten
//// file: photos/IMG 2.jpg
two
//// file: photos/a.Png
a
