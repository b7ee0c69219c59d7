import { createRequire } from 'node:module';
const require = createRequire(import.meta.url);
console.log((await import('pkg')).default, require('pkg'), (await import('pkg/feature')).default, (await import('pkg/files/one.js')).default, (await import('pkg/null-out')).default);
for (const name of ['pkg/internal.js', 'pkg/private/x.js', 'pkg/missing', 'pkg/files/../internal.js', 'bad-target']) {
  try { await import(name); console.log(name, 'loaded'); } catch (e) { console.log(name, e.code); }
  try { require(name); console.log(name, 'required'); } catch (e) { console.log(name, e.code); }
}
console.log(import.meta.resolve('pkg').replace(/.*node_modules/, ''), require.resolve('pkg').replace(/.*node_modules/, ''));
//// file: node_modules/pkg/package.json
{ "name": "pkg", "exports": { ".": { "import": "./esm.mjs", "require": "./cjs.cjs" }, "./feature": { "node": { "development": "./never.js", "default": "./feature-node.mjs" }, "default": "./never.js" }, "./files/*": "./src/*", "./private/*": null, "./null-out": ["./array-first.mjs", "./second.mjs"], "./missing": "./not-there.js" } }
//// file: node_modules/pkg/esm.mjs
export default 'esm entry';
//// file: node_modules/pkg/cjs.cjs
module.exports = 'cjs entry';
//// file: node_modules/pkg/feature-node.mjs
export default 'feature for node';
//// file: node_modules/pkg/src/one.js
module.exports = 'pattern file';
//// file: node_modules/pkg/array-first.mjs
export default 'first of array';
//// file: node_modules/pkg/internal.js
module.exports = 'internal';
//// file: node_modules/pkg/private/x.js
module.exports = 'private';
//// file: node_modules/bad-target/package.json
{ "exports": "../outside.js" }
