const e = new Error('outer', { cause: new TypeError('inner') });
console.log(e.message, e.cause.name, e.cause instanceof TypeError, Object.keys(e), String(e));
class HttpError extends Error { constructor(status, message) { super(message); this.name = 'HttpError'; this.status = status; } }
try { throw new HttpError(404, 'not found'); } catch (x) { console.log(x.name, x.status, `${x}`, x instanceof HttpError, x.stack.split('\n')[0]); }
for (const f of [() => null.x, () => undefined.foo(), () => nope, () => (1)(), () => new (class { constructor() { this.x.y.z; } })(), () => [].reduce((a) => a), () => 'x'.repeat(-1), () => new Array(-1), () => { const c = 1; c = 2; }, () => decodeURIComponent('%'), () => Symbol() + '', () => BigInt(1.5), () => ({}).x.y]) {
  try { f(); } catch (x) { console.log(x.name); }
}
try { try { throw 1; } finally { console.log('finally runs'); } } catch (x) { console.log('caught', x); }
const all = new AggregateError([new Error('a'), new Error('b')], 'many'); console.log(all.message, all.errors.length, all.name);
function g() { try { return 'try'; } finally { console.log('before return'); } } console.log(g());
