exports.before = 1; this.viaThis = 2; console.log(module.exports, this === exports); module.exports = class Late {}; console.log(module.exports.name, exports.before, typeof module.require);
if (true) return console.log('a module may return');
console.log('not reached');
