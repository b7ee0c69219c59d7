function depth(n) { return depth(n + 1) + 1; }
try { depth(0); } catch (e) { console.log(e instanceof RangeError, e.message); }
const nest = (n) => (n ? [nest(n - 1)] : []);
console.log(JSON.stringify(nest(500)).length, nest(200).flat(Infinity));
let sum = 0; (function f(n) { if (n) { sum += n; f(n - 1); } })(3000); console.log(sum);
