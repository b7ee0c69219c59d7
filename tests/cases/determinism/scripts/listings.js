const fs = require('node:fs');
console.log(fs.readdirSync('/workspace', { recursive: true }), fs.readdirSync('/'), fs.readdirSync('/workspace/many').length);
for (const entry of fs.readdirSync('/workspace', { withFileTypes: true })) console.log(entry.name, entry.isDirectory());
const folder = fs.mkdtempSync('/tmp/x-');
console.log(folder, Object.keys(process.env).sort(), process.argv, process.cwd(), process.pid, process.ppid, require('node:os').hostname());
for (const name of ['c', 'a', 'b']) fs.writeFileSync(`/workspace/${name}.txt`, name);
console.log(fs.readdirSync('/workspace'), fs.statSync('/workspace/a.txt').mtime);
fs.utimesSync('/workspace/a.txt', 1e9, 1e9);
console.log(fs.statSync('/workspace/a.txt').mtime, fs.globSync?.('/workspace/*.txt'));
