import { createRequire, builtinModules, isBuiltin } from 'node:module';
const require = createRequire(new URL('./sub/x.js', import.meta.url)); console.log(require('./y'), require.resolve('./y').endsWith('/sub/y.js'));
console.log(builtinModules.filter((n) => ['assert', 'fs', 'http', 'path', 'util', 'zlib'].includes(n)), isBuiltin('fs/promises'), isBuiltin('lodash'));
try { createRequire('relative'); } catch (e) { console.log(e.code); }
console.log(createRequire(import.meta.filename)('./sub/y'), createRequire(import.meta.dirname + '/')('./sub/z.json'));
//// file: sub/y.js
module.exports = 'y';
//// file: sub/z.json
[1]
