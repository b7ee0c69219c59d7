class Money { constructor(v) { this.v = v; } [Symbol.toPrimitive](hint) { return hint === 'string' ? `$${this.v}` : this.v; } static [Symbol.hasInstance](x) { return 'v' in x; } }
const m = new Money(5); console.log(`${m}`, m + 1, m * 2, { v: 1 } instanceof Money);
console.log(Symbol('d').description, Symbol.for('k') === Symbol.for('k'), Symbol.keyFor(Symbol.for('k')), Symbol('x').toString());
const range = { from: 1, to: 3, [Symbol.iterator]() { let n = this.from, to = this.to; return { next: () => (n <= to ? { value: n++, done: false } : { value: undefined, done: true }), return: () => { console.log('returned'); return {}; } }; } };
console.log([...range], Math.max(...range)); for (const x of range) if (x === 2) break;
const [first] = range; console.log(first, new Set(range).size, Object.prototype.toString.call(null), Object.prototype.toString.call([]));
console.log(new Set([1, 2, 3]).union(new Set([4])), new Set([1, 2]).intersection(new Set([2])), new Set([1]).isSubsetOf(new Set([1, 2])), new Set([1, 2]).symmetricDifference(new Set([2, 3])));
