const lib = require('./lib/a');
const again = require('./lib/a.js');
console.log(lib === again, lib.name, lib.dir, lib.parent, require('./lib'), require('./data').list, require('./data.json').list.length);
console.log(__filename, __dirname, module.id, module.filename === __filename, module.loaded, module.children.length, module.paths[0], require.main === module);
console.log(Object.keys(require.cache).map((p) => p.replace(__dirname, '')), require.resolve('./lib'), typeof require.extensions['.js']);
console.log(require('fs') === require('node:fs'), require.resolve('fs'), require.resolve('node:path'), require('node:module').builtinModules.includes('fs'), require('module').isBuiltin('node:test'));
//// file: lib/a.js
exports.name = 'a'; exports.dir = require('path').basename(__dirname); exports.parent = require.main.filename.endsWith('cjs_require.js');
//// file: lib/index.js
module.exports = 'index of lib';
//// file: data.json
{ "list": [1, 2, 3] }
