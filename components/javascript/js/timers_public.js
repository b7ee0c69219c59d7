// node:timers.

import { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate } from 'internal:timers';
import promises from 'node:timers/promises';
import { ERR_OUT_OF_RANGE } from '__wasm_rquickjs_builtin/internal/errors';
import { validateNumber } from '__wasm_rquickjs_builtin/internal/validators';

const LONGEST = 2 ** 31 - 1;

function warn(name, code, instead) {
    if (warn[name]) return;
    warn[name] = true;
    globalThis.process.emitWarning(`timers.${name}() is deprecated. Please use ${instead} instead.`, 'DeprecationWarning', code);
}

// The old interface: objects with `_onTimeout` that a timer calls. `_timer` is that timer.
function start(item, referenced) {
    if (!(item?._idleTimeout >= 0)) return;
    unenrollQuietly(item);
    const timer = setTimeout(() => {
        item._timer = undefined;
        item._onTimeout?.();
        if (item._repeat !== undefined && item._repeat !== null) start(item, referenced);
    }, item._idleTimeout);
    if (!referenced) timer.unref();
    Object.defineProperty(item, '_timer', { value: timer, writable: true, configurable: true, enumerable: false });
    item._idleStart = timer._idleStart;
    item._idleNext ??= item;
    item._idlePrev ??= item;
}

function unenrollQuietly(item) {
    if (item._timer !== undefined) clearTimeout(item._timer);
    if (typeof item?.close === 'function' && item._timerArgs !== undefined) clearTimeout(item);
}

export function enroll(item, msecs) {
    warn('enroll', 'DEP0095', 'setTimeout');
    validateNumber(msecs, 'msecs');
    if (msecs < 0 || !Number.isFinite(msecs)) throw new ERR_OUT_OF_RANGE('msecs', 'a non-negative finite number', msecs);
    if (msecs > LONGEST) {
        globalThis.process.emitWarning(`${msecs} does not fit into a 32-bit signed integer.\nTimer duration was truncated to ${LONGEST}.`, 'TimeoutOverflowWarning');
        msecs = LONGEST;
    }
    if (item._idleNext) unenrollQuietly(item);
    item._idleNext = item._idlePrev = item;
    item._idleTimeout = msecs;
}

export function unenroll(item) {
    warn('unenroll', 'DEP0096', 'clearTimeout');
    unenrollQuietly(item);
    item._idleTimeout = -1;
}

export function active(item) {
    warn('active', 'DEP0126', 'timeout.refresh()');
    start(item, true);
}

export function _unrefActive(item) {
    warn('_unrefActive', 'DEP0127', 'timeout.refresh()');
    start(item, false);
}

export { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate, promises };
export default {
    setTimeout, clearTimeout, setImmediate, clearImmediate, setInterval, clearInterval, _unrefActive, active, enroll, unenroll, promises,
};
