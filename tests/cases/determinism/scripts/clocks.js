const { performance } = require('node:perf_hooks');
console.log(new Date().toISOString(), String(new Date()), new Date().getTimezoneOffset());
for (const [name, read] of Object.entries({
    now: Date.now, performance: () => performance.now(), hrtime: () => process.hrtime(), bigint: () => process.hrtime.bigint(), uptime: () => process.uptime(),
    origin: () => performance.timeOrigin, cpu: () => process.cpuUsage(), os: () => require('node:os').uptime(), memory: () => process.memoryUsage().rss,
})) console.log(name, [1, 2, 3].map(() => read()));
console.time('work');
for (let n = 0; n < 100_000; n++) Math.sqrt(n);
console.timeEnd('work');
const { mtimeMs, atimeMs, ctimeMs, birthtimeMs, ino, dev } = require('node:fs').statSync('/workspace/doc.json');
console.log(mtimeMs, atimeMs, ctimeMs, birthtimeMs, ino, dev);
