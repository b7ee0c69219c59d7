const a = require('./c'); a.n++; console.log(require('./c').n); delete require.cache[require.resolve('./c')]; console.log(require('./c').n);
require.cache[require.resolve('./fake')] = { exports: 'injected' }; console.log(require('./fake'));
const Module = require('module'); const m = new Module('virtual'); m._compile('module.exports = 40 + 2', 'virtual.js'); console.log(m.exports, typeof Module._load, Module._extensions === require.extensions);
const original = Module._load; Module._load = (request, ...rest) => (request === 'mocked' ? 'mock' : original(request, ...rest)); console.log(require('mocked'));
//// file: c.js
module.exports = { n: 1 };
//// file: fake.js
module.exports = 'real';
