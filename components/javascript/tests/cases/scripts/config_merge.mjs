// argv: base.json local.json --set server.port=9 --set debug=true
import { readFileSync, writeFileSync } from 'fs'; const files = [], sets = []; const args = process.argv.slice(2); while (args.length) { const a = args.shift(); a === '--set' ? sets.push(args.shift()) : files.push(a); } const isObject = (v) => v !== null && typeof v === 'object' && !Array.isArray(v); const merge = (a, b) => Object.entries(b).reduce((out, [k, v]) => (k === '__proto__' ? out : { ...out, [k]: isObject(v) && isObject(out[k]) ? merge(out[k], v) : v === null ? undefined : v }), a); const strip = (t) => t.replace(/("(?:\\.|[^"\\])*")|\/\/.*|\/\*[\s\S]*?\*\//g, (_, s) => s ?? '').replace(/,(\s*[}\]])/g, '$1'); let config = files.map((f) => JSON.parse(strip(readFileSync(f, 'utf8')))).reduce(merge, {}); for (const s of sets) { const [k, v] = s.split('='); const path = k.split('.'); const last = path.pop(); let value; try { value = JSON.parse(v); } catch { value = v; } path.reduce((o, p) => (o[p] ??= {}), config)[last] = value; } console.log(JSON.stringify(config, null, 2)); writeFileSync('merged.json', JSON.stringify(config)); console.log({}.polluted);
//// file: base.json
{ // comment
  "server": { "host": "x", "port": 1 }, /* block */ "list": [1, 2,], "url": "http://a//b", "gone": 1, }
//// file: local.json
{ "server": { "host": "y" }, "list": [3], "gone": null, "__proto__": { "polluted": true } }
