// argv: README.md --max 3 --write
const fs = require('node:fs');
const { parseArgs } = require('node:util');

const { values, positionals } = parseArgs({ allowPositionals: true, options: { max: { type: 'string', default: '6' }, write: { type: 'boolean', short: 'w' } } });
const text = fs.readFileSync(positionals[0], 'utf8');
const slugs = new Map();
const slug = (title) => {
  const base = title.toLowerCase().replace(/[`*_~]/g, '').replace(/[^\p{L}\p{N}\s-]/gu, '').trim().replace(/\s+/g, '-');
  const n = slugs.get(base) ?? 0;
  slugs.set(base, n + 1);
  return n ? `${base}-${n}` : base;
};
let fenced = false;
const toc = [];
for (const line of text.split(/\r?\n/)) {
  if (/^(```|~~~)/.test(line)) fenced = !fenced;
  const match = !fenced && line.match(/^(#{1,6})\s+(.*?)\s*#*$/);
  if (match && match[1].length <= Number(values.max)) toc.push(`${'  '.repeat(match[1].length - 1)}- [${match[2]}](#${slug(match[2])})`);
}
console.log(toc.join('\n'));
if (values.write) {
  const updated = text.replace(/(<!-- toc -->\n)[\s\S]*?(<!-- \/toc -->)/, (_, open, close) => open + toc.join('\n') + '\n' + close);
  fs.writeFileSync(positionals[0], updated);
}
//// file: README.md
# The `tool`
<!-- toc -->
old
<!-- /toc -->
## Über uns & you!
## Usage
### Usage
```sh
# not a heading
```
#### Too deep
## Usage ##
