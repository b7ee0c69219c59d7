// What is called is named as it is written.
const o = { a: { list: [1] }, get: () => ({}) };
class Shape { #area = 1; describe() { return this.area(); } static make() { return new this.Kind(); } }
const failing = [
  () => o.missing(), () => o.a.missing(1, 2), () => o.a.list.push.missing(), () => o.get().missing(3), () => o.a.list[0].missing(), () => o?.a?.missing(),
  () => new Shape().describe(), () => { const value = 5; value(); }, () => new o.a(),
  () => JSON.parse('{}').go(), () => [...5], () => { for (const x of 5); },
];
for (const run of failing) try { run(); } catch (error) { console.log(`${error.name}: ${error.message}`); }
const where = (() => { try { o.a.missing('x', o); } catch (error) { return error.stack.split('\n')[1]; } })();
console.log(/call_errors\.js:(\d+):(\d+)/.exec(where).slice(1).join());
