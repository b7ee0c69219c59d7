const { createHook, executionAsyncId, AsyncLocalStorage } = require('node:async_hooks');
const { promiseHooks } = require('node:v8');

const names = new Map(), events = [];
const name = (id) => names.get(id) ?? (id === 1 ? 'top' : '?');
const hook = createHook({
    init(id, type, trigger) {
        names.set(id, `${type.toLowerCase()}${names.size}`);
        events.push(`init ${name(id)} by ${name(trigger)}`);
    },
    before(id) { events.push(`before ${name(id)}`); },
    after(id) { events.push(`after ${name(id)}`); },
    promiseResolve(id) { events.push(`resolved ${name(id)}`); },
}).enable();

async function work() {
    await null;
    events.push(`awaited in ${name(executionAsyncId())}`);
    return 1;
}

work().then(() => {
    hook.disable();
    console.log(events.join('\n'));
    const settled = [];
    const stop = promiseHooks.onSettled((promise) => settled.push(promise));
    const one = Promise.resolve(1), other = Promise.reject(2);
    other.catch(() => {});
    stop();
    console.log(settled.indexOf(one), settled.indexOf(other));
    for (const bad of [async () => {}, async function* () {}, 1]) {
        try {
            promiseHooks.onInit(bad);
        } catch (error) {
            console.log(error.code);
        }
    }
    const outer = new AsyncLocalStorage(), inner = new AsyncLocalStorage();
    outer.run('outer', () => inner.enterWith('stays'));
    console.log(outer.getStore(), inner.getStore());
});
