// argv: template.html data.json out.html
import fs from 'node:fs';

const [template, data, out] = process.argv.slice(2);
const escape = (s) => String(s).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
const lookup = (scope, name) => name === '.' ? scope['.'] : name.split('.').reduce((v, k) => v?.[k], scope);
function render(text, scope) {
  return text
    .replace(/{{#each (\S+?)}}([\s\S]*?){{\/each}}/g, (_, name, body) => (lookup(scope, name) ?? []).map((item, index) => render(body, { ...scope, ...(typeof item === 'object' ? item : {}), '.': item, index })).join(''))
    .replace(/{{#if (\S+?)}}([\s\S]*?)(?:{{else}}([\s\S]*?))?{{\/if}}/g, (_, name, yes, no = '') => render(lookup(scope, name) ? yes : no, scope))
    .replace(/{{{(\S+?)}}}/g, (_, name) => lookup(scope, name) ?? '')
    .replace(/{{(\S+?)(?: \| (\w+))?}}/g, (_, name, filter) => { const v = lookup(scope, name) ?? ''; return escape(filter === 'upper' ? String(v).toUpperCase() : v); });
}
const html = render(fs.readFileSync(template, 'utf8'), JSON.parse(fs.readFileSync(data, 'utf8')));
fs.writeFileSync(out, html);
console.log(`wrote ${out}: ${Buffer.byteLength(html)} bytes`);
//// file: template.html
<h1>{{title | upper}}</h1>
{{#if draft}}<em>Draft</em>{{else}}<b>Final</b>{{/if}}
<ul>{{#each items}}
  <li>{{index}}: {{name}} ({{owner.name}}){{/each}}
</ul>
{{{raw}}} {{missing}} {{#each tags}}#{{.}} {{/each}}
//// file: data.json
{ "title": "Tom & Jerry", "draft": false, "owner": { "name": "O'Neil" }, "items": [{ "name": "<a>" }, { "name": "b" }], "raw": "<hr>", "tags": ["x", "y"] }
