const ns = require('./lib.mjs'); console.log(ns.default, ns.named, ns.__esModule, ns);
console.log(require('./m.mjs'));
try { require('./tla.mjs'); } catch (e) { console.log(e.code); }
//// file: lib.mjs
export default 'd'; export const named = 'n';
//// file: m.mjs
const f = () => 1; export { f as 'module.exports' };
//// file: tla.mjs
await 1; export default 2;
