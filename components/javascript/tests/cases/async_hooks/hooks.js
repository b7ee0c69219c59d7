const { createHook, executionAsyncId, triggerAsyncId, AsyncResource } = require('async_hooks');
for (const wrong of [() => createHook({ init: 1 }), () => new AsyncResource(), () => new AsyncResource('x', -5)]) try { wrong(); } catch (error) { console.log(error.code); }
const events = [], names = new Map();
const hook = createHook({
  init(id, type, trigger) { if (['Timeout', 'TickObject', 'MINE'].includes(type)) { names.set(id, type); events.push(`init ${type}`); } },
  before(id) { if (names.has(id)) events.push(`before ${names.get(id)}`); },
  after(id) { if (names.has(id)) events.push(`after ${names.get(id)}`); },
}).enable();
const top = executionAsyncId();
setTimeout(() => { events.push(`timeout in ${top} ${triggerAsyncId() === top}`); }, 1);
process.nextTick(() => events.push('tick'));
const resource = new AsyncResource('MINE');
resource.runInAsyncScope(() => events.push(String(executionAsyncId() === resource.asyncId())));
resource.emitDestroy();
setTimeout(() => { hook.disable(); console.log(top, events.join('\n')); }, 30);
