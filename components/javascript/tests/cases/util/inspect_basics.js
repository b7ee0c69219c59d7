const util = require('util'); class Foo { constructor() { this.a = 1; } } class Bar extends Foo { get x() { return 1; } static s = 1; } const circular = { name: 'c' }; circular.self = circular; circular.list = [circular];
console.log(new Foo(), new Bar(), Foo, Bar, class {}, circular, [circular], Object.create(null), Object.create({ a: 1 }), Object.create(Foo.prototype));
console.log([1.5, -0, 'q\'s', "d\"q", `b\`t'"`, 'line\nbreak', '\u001b[31m', null, undefined, true, 10n, Symbol('s'), Symbol.iterator]);
console.log(function named() {}, () => {}, async () => {}, function* gen() {}, async function* ag() {}, Math.max, Object.assign(function f() {}, { prop: 1 }));
console.log(new Map([['k', { v: [1] }], [{}, new Set([1, 'x'])]]), new Set(), new WeakMap(), new WeakSet(), Promise.resolve(5), new Promise(() => {}), Promise.reject(new Error('r')).catch(() => {}));
console.log(new Date(0), /re/gi, new Error('msg').message, [new Date(NaN)], Object(1), Object('str'), Object(true), Object(1n), Object(Symbol('b')), new Proxy({ p: 1 }, {}), globalThis === global, Math, JSON, Reflect, Atomics);
console.log(new Uint8Array(3), new ArrayBuffer(4), Buffer.from('hi'), new DataView(new ArrayBuffer(2)), new Float64Array([0.1, NaN]), [,'hole', , ,], (function () { return arguments; })(1, 2), new (class extends Array {})(3), new (class Sub extends Map {})([[1, 2]]));
console.log({ 'quoted-key': 1, valid_id: 2, 3: 3, [Symbol('k')]: 4, get g() { return 1; }, set s(v) {}, get gs() { return 1; }, set gs(v) {} }, { f() {}, async a() {}, nested: { deep: { deeper: { deepest: 1 } } } });
