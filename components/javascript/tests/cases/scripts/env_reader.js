// env: APP_MODE=test
// argv: .env
const fs = require('fs');
function parse(text) {
  const out = {};
  for (const m of text.matchAll(/^\s*(?:export\s+)?([\w.-]+)\s*=\s*(?:'([^']*)'|"((?:\\.|[^"\\])*)"|([^#\n]*?))?\s*(?:#.*)?$/gm)) {
    const [, key, single, double, bare] = m;
    out[key] = single ?? double?.replace(/\\n/g, '\n').replace(/\\(.)/g, '$1') ?? bare?.trim() ?? '';
  }
  for (const key of Object.keys(out)) out[key] = out[key].replace(/\$\{(\w+)\}/g, (_, name) => out[name] ?? process.env[name] ?? '');
  return out;
}
const settings = parse(fs.readFileSync(process.argv[2], 'utf8'));
const masked = Object.fromEntries(Object.entries(settings).map(([k, v]) => [k, /SECRET|TOKEN/.test(k) ? '*'.repeat(v.length) : v]));
console.log(masked);
const missing = ['URL', 'PORT', 'REGION'].filter((k) => !settings[k]);
if (missing.length) { console.error('error: missing settings:', missing.join(', ')); process.exitCode = 3; }
//// file: .env
# comment
URL=http://localhost:${PORT}
export PORT=8080 # inline
API_TOKEN='abc#def'
TEXT="two\nlines \"quoted\""
MODE=${APP_MODE}
EMPTY=
