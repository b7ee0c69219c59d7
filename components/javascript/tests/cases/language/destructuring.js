const { a, b: { c = 5, ...rest } = {}, ...others } = { a: 1, b: { d: 2, e: 3 }, f: 4, g: 5 };
console.log(a, c, rest, others);
const [x, , y = 'default', ...tail] = [1, 2, undefined, 4, 5];
console.log(x, y, tail);
function f({ name = 'none', size: [w, h] = [1, 2] } = {}, ...args) { return `${name} ${w}x${h} ${args}`; }
console.log(f(), f({ name: 'n', size: [3, 4] }, 1, 2), f.length);
let p = 1, q = 2;
[p, q] = [q, p];
console.log(p, q);
for (const [key, { v }] of Object.entries({ one: { v: 1 }, two: { v: 2 } })) console.log(key, v);
const key = 'dynamic';
const { [key]: value = 'missing' } = { dynamic: 0 };
console.log(value);
