// What depends on when memory is collected.
let collected = 0;
const registry = new FinalizationRegistry(() => collected++);
const refs = [];
for (let n = 0; n < 200_000; n++) {
    const object = { n, text: `text ${n}` };
    if (n % 1000 === 0) {
        registry.register(object, n);
        refs.push(new WeakRef(object));
    }
}
setTimeout(() => console.log(refs.filter((ref) => ref.deref()).length, collected, process.memoryUsage().heapUsed), 10);
