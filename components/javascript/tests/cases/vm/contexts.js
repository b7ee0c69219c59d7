// Each context has built-in objects and global names of its own.
const vm = require('vm');
const sandbox = { count: 1, list: [1, 2], console };
const context = vm.createContext(sandbox);
console.log(context === sandbox, vm.isContext(sandbox), vm.isContext({}));
vm.runInContext('count += 1; var added = count * 10; function twice(n) { return n * 2; } let hidden = 1; implicit = 5;', context);
console.log(sandbox.count, sandbox.added, typeof sandbox.twice, sandbox.twice(4), 'hidden' in sandbox, sandbox.implicit);
console.log(vm.runInContext('[list instanceof Array, [] instanceof Array, typeof process, typeof require, hidden, globalThis.count, this === globalThis]', context));
console.log(vm.runInContext('[]', context) instanceof Array, Array.isArray(vm.runInContext('[1]', context)));
vm.runInContext('Array.prototype.extra = 1; Object.prototype.other = 2;', context);
console.log([].extra, {}.other);
try { vm.runInContext('missing', context); } catch (error) { console.log(error.name, error.message, error instanceof ReferenceError); }
console.log(vm.runInContext('typeof missing', context));
Object.defineProperty(sandbox, 'computed', { get: () => 42, enumerable: true, configurable: true });
console.log(vm.runInContext('computed', context), vm.runInContext('Object.keys(globalThis).includes("computed")', context));
const other = vm.createContext();
vm.runInContext('count = 7', other);
console.log(sandbox.count, other.count, vm.runInNewContext('x + 1', { x: 1 }));
console.log(vm.runInContext('(async () => { await null; return count; })()', context).constructor === Promise);
vm.runInContext('Promise.resolve(count).then((n) => { count = n + 100; })', context);
setTimeout(() => console.log(sandbox.count), 1);
console.log(new vm.Script('a + b').runInNewContext({ a: 1, b: 2 }), vm.runInNewContext('eval("1 + 1")'));
console.log(vm.compileFunction('return a + outside', ['a'], { parsingContext: vm.createContext({ outside: 3 }) })(1));
