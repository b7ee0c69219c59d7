// The order of callbacks, over hours of virtual time.
const fs = require('node:fs');
const start = Date.now();
const say = (what) => console.log(Math.round((Date.now() - start) / 1000), what);
setTimeout(() => say('an hour'), 3_600_000);
setTimeout(() => say('a second'), 1000);
setTimeout(() => say('at once'), 0);
setImmediate(() => say('immediate'));
process.nextTick(() => say('tick'));
Promise.resolve().then(() => say('promise'));
queueMicrotask(() => say('microtask'));
for (const name of fs.readdirSync('/workspace/tree')) fs.stat(`/workspace/tree/${name}`, () => say(name));
fs.promises.readFile('/workspace/doc.json').then((data) => say(data.length));
const every = setInterval(() => say('interval'), 600_000);
setTimeout(() => clearInterval(every), 3_000_000);
(async () => {
    for (let n = 0; n < 3; n++) {
        await require('node:timers/promises').setTimeout(60_000);
        say(`waited ${n}`);
    }
    await Promise.race([5, 3, 4].map((n) => new Promise((resolve) => setTimeout(() => resolve(n), n * 1000)))).then(say);
})();
