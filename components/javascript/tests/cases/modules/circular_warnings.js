// stderr: yes
const one = require('./one.js');
console.log(one, Object.getPrototypeOf(one) === Object.prototype);
require.extensions['.part.js'] = (module, filename) => { module.exports = require('path').basename(filename); };
console.log(require('./data.part.js'));
try {
    require.resolve('./one', { paths: 'x' });
} catch (error) {
    console.log(error.code);
}
const trace = require('node:diagnostics_channel').tracingChannel('module.require');
trace.subscribe({ start: ({ id }) => console.log('start', id), end: ({ id, result }) => console.log('end', id, typeof result) });
require('node:os');
//// file: one.js
exports.early = 1;
exports.seen = require('./other.js').seen;
//// file: other.js
const { early, late } = require('./one.js');
exports.seen = [early, late];
//// file: data.part.js
throw new Error('not run');
