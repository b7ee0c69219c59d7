import dep from '#dep'; import { helper } from '#lib/helper.js'; import ext from '#ext';
console.log(dep, helper, ext);
for (const name of ['#missing', '#', '#lib/none.js']) try { await import(name); } catch (e) { console.log(name, e.code); }
//// file: package.json
{ "type": "module", "imports": { "#dep": { "node": "./src/node-dep.js", "default": "./src/other.js" }, "#lib/*": "./src/lib/*", "#ext": "outer" } }
//// file: src/node-dep.js
export default 'node dep';
//// file: src/lib/helper.js
export const helper = 'helper';
//// file: node_modules/outer/package.json
{ "type": "module", "exports": "./i.js" }
//// file: node_modules/outer/i.js
export default 'outer package';
