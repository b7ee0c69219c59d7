// Nests each thing too deeply. Each line says how it ended: `done`, or the error's name. None may end the program in another way.
const { writeSync } = require('node:fs');
const assert = require('node:assert');
const util = require('node:util');
const v8 = require('node:v8');
const vm = require('node:vm');
const DEPTH = 50_000, VALUES = 10_000;

const nested = (open, inner, close) => open.repeat(DEPTH) + inner + close.repeat(DEPTH);
const chain = (make, from, count = VALUES) => {
    let value = from;
    for (let at = 0; at < count; at++) value = make(value);
    return value;
};
const list = () => chain((inner) => [inner], []);
const object = () => chain((inner) => ({ inner }), {});

const THINGS = {
    'calls': () => { (function f() { return f() + 1; })(); },
    'methods': () => { const o = { f() { return this.f() + 1; } }; o.f(); },
    'apply': () => { (function f() { return Reflect.apply(f, null, []) + 1; })(); },
    'getters': () => { const o = { get x() { return this.x + 1; } }; o.x; },
    'setters': () => { const o = { set x(value) { this.x = value; } }; o.x = 1; },
    'toString': () => { const o = { toString() { return `${this}`; } }; `${o}`; },
    'constructors': () => { class A { constructor() { this.a = new A(); } } new A(); },
    'callbacks of map': () => { (function f() { return [1].map(f); })(); },
    'comparators of sort': () => { (function f() { return [2, 1].sort(() => (f(), 0)); })(); },
    'replacers': () => { (function f() { return 'a'.replace(/a/, f); })(); },
    'revivers': () => { (function f() { return JSON.parse('[1]', f); })(); },
    'iterators': () => { const o = { [Symbol.iterator]() { return [...this]; } }; [...o]; },
    'generators': () => { function* f() { yield* f(); } [...f()]; },
    'async functions': () => { (async function f() { await f(); })().catch(() => {}); },
    'proxies': () => { chain((inner) => new Proxy(inner, {}), {}).x; },
    'bound functions': () => { chain((inner) => inner.bind(null), () => 1, 5000)(); },
    'prototypes': () => { chain((inner) => Object.create(inner), {}).x; },
    'arrays as text': () => { String(list()); },
    'flat': () => { list().flat(Infinity); },
    'concatenated strings': () => { chain((inner) => inner + 'a', 'a').charCodeAt(0); },
    'concatenated strings, on the other side': () => { chain((inner) => 'a' + inner, 'a').charCodeAt(7); },
    'JSON.parse of arrays': () => { JSON.parse(nested('[', '', ']')); },
    'JSON.parse of objects': () => { JSON.parse(nested('{"a":', '1', '}')); },
    'JSON.stringify of arrays': () => { JSON.stringify(list()); },
    'JSON.stringify of objects': () => { JSON.stringify(object(), null, 1); },
    'structuredClone': () => { structuredClone(list()); },
    'v8.serialize': () => { v8.serialize(object()); },
    'v8.deserialize': () => { v8.deserialize(Buffer.from([0xff, 0x0f, ...new Array(DEPTH).fill(0x41)])); },
    'util.inspect': () => { util.inspect(object(), { depth: Infinity }); },
    'util.isDeepStrictEqual': () => { util.isDeepStrictEqual(list(), list()); },
    'assert.deepStrictEqual': () => { assert.deepStrictEqual(object(), object()); },
    'Error.cause': () => { util.inspect(chain((cause) => new Error('x', { cause }), new Error('x'))); },
    'new URLSearchParams': () => { new URLSearchParams(list()); },
    'new Headers': () => { new Headers(object()); },
    'parentheses': () => { vm.runInThisContext(nested('(', '1', ')')); },
    'brackets': () => { vm.runInThisContext(nested('[', '', ']')); },
    'blocks': () => { vm.runInThisContext(nested('{', '', '}')); },
    'objects': () => { vm.runInThisContext('x = ' + nested('{a:', '1', '}')); },
    'arrow functions': () => { vm.runInThisContext('a=>'.repeat(DEPTH) + '1'); },
    'functions': () => { vm.runInThisContext(nested('(function(){', '', '})')); },
    'classes': () => { vm.runInThisContext(nested('(class{static x=', '1', '})')); },
    'operators': () => { vm.runInThisContext('!'.repeat(DEPTH) + '1'); },
    'sums': () => { vm.runInThisContext('1+'.repeat(DEPTH) + '1'); },
    'powers': () => { vm.runInThisContext('1**'.repeat(DEPTH) + '1'); },
    'conditions': () => { vm.runInThisContext('1?1:'.repeat(DEPTH) + '1'); },
    'statements': () => { vm.runInThisContext('if(1)'.repeat(DEPTH) + ';'); },
    'labels': () => { vm.runInThisContext(Array.from({ length: 5000 }, (_, at) => `l${at}:`).join('') + ';'); },
    'loops': () => { vm.runInThisContext('for(;0;)'.repeat(DEPTH) + ';'); },
    'template literals': () => { vm.runInThisContext(nested('`${', '1', '}`')); },
    'patterns': () => { vm.runInThisContext('var ' + nested('[', 'a', ']') + '=[]'); },
    'members': () => { vm.runInThisContext('a' + '.a'.repeat(DEPTH)); },
    'calls of calls': () => { vm.runInThisContext('(()=>1)' + '()'.repeat(DEPTH)); },
    'optional members': () => { vm.runInThisContext('globalThis' + '?.a'.repeat(DEPTH)); },
    'groups of a regular expression': () => { new RegExp(nested('(', 'a', ')')); },
    'groups without captures': () => { new RegExp(nested('(?:', 'a', ')')); },
    'lookaheads': () => { new RegExp(nested('(?=', 'a', ')')); },
    'classes of a regular expression': () => { new RegExp(nested('[', 'a', ']'), 'v'); },
    'repetitions': () => { new RegExp('a{2}' + '(?:'.repeat(30) + 'a' + '){0,9}'.repeat(30)).test('aaa'); },
};

for (const [name, make] of Object.entries(THINGS)) {
    let end = 'done';
    try {
        make();
    } catch (error) {
        end = error?.constructor?.name ?? String(error);
    }
    writeSync(1, `${name}: ${end}\n`);
}
process.on('exit', () => writeSync(1, 'end\n'));
