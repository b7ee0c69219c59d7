async function* ticks(n) { for (let i = 0; i < n; i++) { await null; yield i; } }
async function main() {
  for await (const t of ticks(3)) console.log('tick', t);
  for await (const v of [Promise.resolve('p'), 'q']) console.log(v);
  const source = { async *[Symbol.asyncIterator]() { try { yield 1; yield 2; } finally { console.log('closed'); } } };
  for await (const v of source) { console.log(v); break; }
  console.log(await Array.fromAsync(ticks(4)));
}
main().then(() => console.log('done'));
