const array = new Int32Array(new SharedArrayBuffer(8));
const start = performance.now();
console.log(Atomics.wait(array, 0, 0, 60), performance.now() - start >= 59);
console.log(Atomics.wait(array, 0, 1, 1000), Atomics.wait(array, 0, 0, 0));
