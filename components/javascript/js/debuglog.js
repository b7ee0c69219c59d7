// What NODE_DEBUG shows, and how times are printed. The environment is known only when a run begins.

const logs = new Map();

function isEnabled(set) {
    const names = globalThis.process?.env.NODE_DEBUG;
    if (!names) return false;
    const pattern = names.replace(/[|\\{}()[\]^$+?.]/g, '\\$&').replaceAll('*', '.*').replaceAll(',', '$|^');
    return new RegExp(`^${pattern}$`, 'i').test(set);
}

export function debuglog(name, callback) {
    const set = name.toUpperCase();
    const logger = (...args) => {
        if (!isEnabled(set)) return;
        let log = logs.get(set);
        if (log === undefined) {
            log = (...rest) => {
                const { format } = globalThis.__skillhost_require('node:util');
                globalThis.process.stderr.write(`${set} ${globalThis.process.pid}: ${format(...rest)}\n`);
            };
            logs.set(set, log);
            callback?.(log);
        }
        log(...args);
    };
    Object.defineProperty(logger, 'enabled', { get: () => isEnabled(set), configurable: true, enumerable: true });
    return logger;
}

const pad = (value) => String(value).padStart(2, '0');

export function formatTime(ms) {
    let hours = 0, minutes = 0, seconds = 0;
    if (ms >= 1000) {
        if (ms >= 60_000) {
            if (ms >= 3_600_000) {
                hours = Math.floor(ms / 3_600_000);
                ms %= 3_600_000;
            }
            minutes = Math.floor(ms / 60_000);
            ms %= 60_000;
        }
        seconds = ms / 1000;
    }
    if (hours !== 0 || minutes !== 0) {
        const [whole, fraction] = seconds.toFixed(3).split('.', 2);
        const start = hours !== 0 ? `${hours}:${pad(minutes)}` : minutes;
        return `${start}:${pad(whole)}.${fraction} (${hours !== 0 ? 'h:m' : ''}m:ss.mmm)`;
    }
    if (seconds !== 0) return `${seconds.toFixed(3)}s`;
    return `${Number(ms.toFixed(3))}ms`;
}

export default { debuglog, formatTime };
