const shared = new Int32Array(new SharedArrayBuffer(16));
console.log(Atomics.add(shared, 0, 5), Atomics.load(shared, 0), Atomics.sub(shared, 0, 2), Atomics.exchange(shared, 1, 7), Atomics.compareExchange(shared, 1, 7, 9));
console.log(shared, Atomics.or(shared, 2, 6), Atomics.and(shared, 2, 3), Atomics.xor(shared, 2, 1), Atomics.store(shared, 3, 2.9), Atomics.isLockFree(4));
console.log(Atomics.wait(shared, 0, 0), Atomics.wait(shared, 0, 3, 5), Atomics.notify(shared, 0, 1), Atomics.add.length, Object.prototype.toString.call(Atomics));
for (const run of [() => Atomics.add([], 0, 1), () => Atomics.load(shared, 9), () => Atomics.add(new Float64Array(1), 0, 1)]) try { run(); } catch (error) { console.log(error.name); }
console.log(Atomics.add(new BigInt64Array(1), 0, 3n), (0.5).toString(2), (255.255).toString(16), (1e15).toString(36), (-7.25).toString(3));
