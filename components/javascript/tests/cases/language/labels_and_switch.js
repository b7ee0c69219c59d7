outer: for (let i = 0; i < 3; i++) { for (let j = 0; j < 3; j++) { if (j === 1) continue outer; if (i === 2) break outer; console.log(i, j); } }
function kind(v) { switch (true) { case v === null: return 'null'; case Array.isArray(v): return 'array'; default: return typeof v; } }
console.log([null, [], {}, 1, undefined, () => 1, Symbol()].map(kind));
switch (3) { case 1: console.log('one'); default: console.log('default'); case 2: console.log('falls'); break; case 4: console.log('no'); }
const fns = []; for (let i = 0; i < 3; i++) fns.push(() => i); console.log(fns.map((f) => f()));
var hoisted = typeof later; var later = 1; console.log(hoisted, typeof declared); function declared() {}
console.log((function () { return arguments.length + arguments[0]; })(5, 6), (() => { try { return this === module.exports; } catch { return 'x'; } })());
do { var once = 1; } while (false); console.log(once, void 0, (1, 2), !!'' + 1);
