import a from './mod/a.js'; import b from './common/b.js'; import c from './mod/nested/c.cjs'; console.log(a, b, c);
//// file: mod/package.json
{ "type": "module" }
//// file: mod/a.js
export default typeof require;
//// file: common/package.json
{ "type": "commonjs" }
//// file: common/b.js
module.exports = typeof require;
//// file: mod/nested/c.cjs
module.exports = 'cjs in module scope';
