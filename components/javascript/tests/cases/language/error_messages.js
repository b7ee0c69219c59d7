// The messages that V8 gives to frequent mistakes.
const o = { a: {} };
for (const f of [() => null.x, () => undefined.foo(), () => o.a.b.c, () => o.missing(), () => o.a.f(), () => nope, () => { let q = 1; q(); }, () => { const c = 1; c = 2; }, () => [...5], () => new o(), () => { x; let x; }, () => JSON.parse('{bad'), () => 'x'.repeat(-1), () => new Array(-1), () => null[Symbol.iterator], () => { const { p } = null; }, () => 1n + 1, () => Symbol() + '', () => { 'use strict'; undefinedVariable = 1; }, () => 'a' in 'b', () => ({}) instanceof 5, () => Object.defineProperty(1, 'x', {})]) {
  try { f(); } catch (x) { console.log(`${x.name}: ${x.message}`); }
}
