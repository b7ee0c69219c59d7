import { Readable } from 'node:stream';

const numbers = () => Readable.from([1, 2, 3, 4, 5]);
console.log(await numbers().map(async (x) => x * 2, { concurrency: 2 }).filter((x) => x > 4).toArray());
console.log(await numbers().flatMap((x) => [x, -x]).drop(2).take(3).toArray());
console.log(await numbers().some((x) => x > 4), await numbers().every((x) => x > 4), await numbers().find((x) => x > 2));
console.log(await numbers().reduce((sum, x) => sum + x), await Readable.from([]).reduce((sum) => sum).catch((error) => error.name));
const seen = [];
await numbers().forEach(async (x) => seen.push(x));
console.log(seen);

// What ends a loop destroys the stream, and runs what the generator has left to do.
async function* endless() {
    try {
        for (let x = 0; ; x++) yield x;
    } finally {
        console.log('generator ended');
    }
}
const stream = Readable.from(endless());
for await (const x of stream) if (x === 2) break;
console.log(stream.destroyed);
const first = Readable.from(endless());
console.log(await first.find((x) => x === 3));
await new Promise(setImmediate);
console.log(first.destroyed);

const abort = new AbortController();
numbers().map(() => new Promise(() => {}), { signal: abort.signal }).toArray().catch((error) => console.log(error.name, error.code));
abort.abort();
for (const work of [() => numbers().map('x'), () => numbers().take(-1), () => numbers().filter(() => true, { concurrency: 0 })]) {
    try {
        work();
    } catch (error) {
        console.log(error.code);
    }
}
console.log(Readable.prototype.map.name, Readable.prototype.map.length, Object.keys(Readable.prototype).includes('map'));
