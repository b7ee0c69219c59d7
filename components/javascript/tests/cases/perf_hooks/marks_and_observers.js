const { performance, PerformanceObserver, createHistogram, constants } = require('perf_hooks');
const observer = new PerformanceObserver((list, self) => {
  console.log(list.getEntries().map(({ name, entryType, detail }) => [name, entryType, detail]), self === observer);
  observer.disconnect();
});
observer.observe({ entryTypes: ['mark', 'measure'] });
const start = performance.mark('start', { startTime: 10, detail: { a: [1] } });
performance.mark('end', { startTime: 35 });
const measure = performance.measure('both', 'start', 'end');
console.log(start, measure.duration, performance.measure('by options', { start: 5, duration: 2, detail: 'd' }).toJSON());
console.log(performance.getEntries().map((entry) => entry.name), performance.getEntriesByName('end', 'mark').length, performance.getEntriesByType('measure').length);
for (const call of [() => performance.measure('m', 'missing'), () => performance.mark(), () => performance.mark('nodeStart'), () => performance.mark('x', { startTime: -1 }), () => new PerformanceObserver(), () => observer.observe({}), () => performance.timerify(1)]) {
  try { call(); } catch (error) { console.log(error.name, error.code, error.message); }
}
performance.clearMarks('start'); performance.clearMeasures();
console.log(performance.getEntries().length, PerformanceObserver.supportedEntryTypes, constants.NODE_PERFORMANCE_GC_MAJOR);
const timed = performance.timerify(function add(a, b) { return a + b; });
console.log(timed(1, 2), timed.name, timed.length);
const histogram = createHistogram();
for (let value = 1; value <= 100; value++) histogram.record(value);
console.log(histogram.min, histogram.max, histogram.mean, histogram.count, histogram.percentile(50), histogram.percentile(99), histogram.stddev.toFixed(3), histogram.percentiles);
console.log(performance instanceof EventTarget, typeof performance.timeOrigin, performance.eventLoopUtilization(), Object.keys(performance.nodeTiming.toJSON()));
