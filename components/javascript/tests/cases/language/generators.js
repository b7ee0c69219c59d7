function* count(limit) {
  try {
    for (let i = 0; i < limit; i++) {
      const sent = yield i;
      if (sent) console.log('sent', sent);
    }
    return 'end';
  } finally {
    console.log('finally');
  }
}
const it = count(3);
console.log(it.next(), it.next('hello'), it.return('early'), it.next());
console.log([...count(2)]);
function* outer() { const result = yield* count(1); console.log('result', result); }
console.log(Array.from(outer()));
try { const bad = count(5); bad.next(); bad.throw(new Error('thrown in')); } catch (e) { console.log(e.message); }
const entries = new Map([['a', 1], ['b', 2]]);
console.log([...entries.keys()].map((k) => k.toUpperCase()), Iterator.from([1, 2, 3, 4]).filter((n) => n % 2).map((n) => n * 10).toArray());
console.log(Iterator.from([5, 6, 7]).take(2).toArray(), Iterator.from([1, 2]).flatMap((n) => [n, n]).toArray());
