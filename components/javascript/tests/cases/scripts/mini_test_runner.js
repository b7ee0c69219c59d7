// argv: tests
const path = require('path'), fs = require('fs'), assert = require('assert'); const tests = []; global.test = (name, fn) => tests.push({ name, fn }); global.expect = (v) => ({ toBe: (e) => assert.strictEqual(v, e), toEqual: (e) => assert.deepStrictEqual(v, e), toThrow: (re) => assert.throws(v, re) }); for (const f of fs.readdirSync(process.argv[2]).filter((f) => f.endsWith('.test.js')).sort()) require(path.resolve(process.argv[2], f)); (async () => { let failed = 0; for (const { name, fn } of tests) { try { await fn(); console.log('ok  ', name); } catch (e) { failed++; console.log('FAIL', name, '-', e.message.split('\n')[0]); } } console.log(`${tests.length - failed}/${tests.length} passed`); process.exit(failed ? 1 : 0); })();
//// file: tests/a.test.js
test('adds', () => expect(1 + 1).toBe(2)); test('equals', () => expect({ a: [1] }).toEqual({ a: [1] })); test('async', async () => { await null; expect(1).toBe(2); });
//// file: tests/b.test.js
const { f } = require('../lib'); test('throws', () => expect(f).toThrow(/bad/));
//// file: lib.js
exports.f = () => { throw new TypeError('bad input'); };
