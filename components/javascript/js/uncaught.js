// Uncaught errors: the messages, the exit codes and the events of Node.

import * as native from 'internal:native/process';
import process from 'node:process';
import { inspect } from '__wasm_rquickjs_builtin/internal/util/inspect';

let handling = false;

// Reports an error that a callback threw. Returns only if the script listens for it.
export function uncaught(error, origin = 'uncaughtException', ofPromise = false) {
    const capture = process._uncaughtExceptionCapture;
    if (typeof capture === 'function') {
        try {
            capture(error);
        } catch (other) {
            fatal(other, 7);
        }
        return;
    }
    if (handling) fatal(error, 7);
    try {
        handling = true;
        process.emit('uncaughtExceptionMonitor', error, origin);
        if (process.listenerCount('uncaughtException') > 0) {
            process.emit('uncaughtException', error, origin);
            handling = false;
            return;
        }
    } catch (other) {
        fatal(other, 7);
    }
    fatal(error, 1, ofPromise);
}

// Prints an error as Node does, and ends the program.
export function fatal(error, code = 1, ofPromise = false) {
    handling = true;
    native.write(2, message(error, ofPromise));
    end(code);
}

function end(code) {
    process.exitCode = code;
    process._exiting = true;
    try {
        process.emit('exit', code);
    } catch (error) {
        native.write(2, message(error));
        code = 7;
    }
    native.exit(process.exitCode ?? code);
}

function message(error, ofPromise) {
    let text;
    try {
        text = typeof error === 'object' && error !== null || typeof error === 'function' ? inspect(error) : String(error);
    } catch {
        text = '[object that cannot be inspected]';
    }
    const isError = error !== null && typeof error === 'object' && typeof error.stack === 'string';
    // An error without frames is shown in brackets elsewhere.
    if (isError && text.startsWith(`[${error.stack}]`)) text = `${error.stack}\n    at node:internal${text.slice(error.stack.length + 2)}`;
    const place = source(error, isError, ofPromise);
    if (isError) return `${place}${place ? '\n' : ''}${text}\n\nNode.js ${process.version}\n`;
    const isObject = error !== null && (typeof error === 'object' || typeof error === 'function');
    const hint = isObject ? '' : '(Use `node --trace-uncaught ...` to show where the exception was thrown)\n';
    return `${place && `\n${place}`}${text}\n${hint}\nNode.js ${process.version}\n`;
}

const FRAME = /^\s+at (?:.* \()?((?:file:\/\/)?\/[^()]*|\[eval1?\]|\[stdin\](?:\.\w+(?:#syntax)?)?):(\d+):(\d+)\)?$/;

// The line of a script that an error was thrown in, with a mark below it.
function source(error, isError, ofPromise) {
    let place = ofPromise ? undefined : native.throwPosition(error);
    if (place !== undefined && /^(?:node|internal):|^__wasm/.test(place.file)) place = undefined;
    if (place !== undefined) {
        const [, file, line, column] = /^(.*):(\d+):(\d+)$/.exec(globalThis.__skillhost_place(place.file, place.line, place.column));
        place = { file, line: +line, column: +column };
    } else if (isError) {
        for (const line of stackOf(error).split('\n')) {
            const found = FRAME.exec(line);
            if (!found) continue;
            place = { file: found[1], line: +found[2], column: +found[3] };
            break;
        }
    }
    if (place === undefined) return '';
    const text = native.sourceLine(place.file, place.line);
    if (text === undefined) return `${place.file}:${place.line}\n`;
    const mark = text.slice(0, Math.max(0, place.column - 1)).replace(/[^\t]/g, ' ') + '^';
    return `${place.file}:${place.line}\n${text}\n${mark}\n`;
}

function stackOf(error) {
    try {
        return String(error.stack);
    } catch {
        return '';
    }
}

// The promises that were rejected without a handler and are not reported yet, with the reasons and numbers of the rejections.
const pending = new Map();
// The numbers of those that were reported.
const reported = new WeakMap();
let lastNumber = 0;
let handledLater = [];

// Called by the engine when a promise is rejected without a handler, and when it gets one.
export function trackRejection(promise, reason, handled) {
    if (!handled) {
        pending.set(promise, { reason, number: ++lastNumber });
    } else if (!pending.delete(promise) && reported.has(promise)) {
        handledLater.push([promise, reported.get(promise)]);
        reported.delete(promise);
    }
}

// Forgets the rejection of a promise: the caller throws its reason.
export function ignoreRejection(promise) {
    pending.delete(promise);
}

// Reports the promises that were rejected without a handler, and those that got one after their report: these wait for a turn that reports others
// or in which ticks ran, as in Node. Returns whether there was anything to report.
export function reportRejections(ranTicks) {
    if (pending.size === 0 && !(ranTicks && handledLater.length > 0)) return false;
    const handled = handledLater;
    handledLater = [];
    for (const [promise, number] of handled) {
        if (!process.emit('rejectionHandled', promise)) {
            process.emitWarning(`Promise rejection was handled asynchronously (rejection id: ${number})`, 'PromiseRejectionHandledWarning');
        }
    }
    const list = [...pending];
    pending.clear();
    for (const [promise, { reason, number }] of list) {
        reported.set(promise, number);
        try {
            rejected(promise, reason, number);
        } catch (error) {
            uncaught(error);
        }
    }
    return true;
}

function rejected(promise, reason, number) {
    const emit = () => process.emit('unhandledRejection', reason, promise);
    switch (process._unhandledRejections) {
    case 'none':
        emit();
        return;
    case 'warn':
        emit();
        warn(reason, number);
        return;
    case 'warn-with-error-codes':
        if (emit()) return;
        warn(reason, number);
        process.exitCode = 1;
        return;
    case 'strict':
        uncaught(errorOf(reason), 'unhandledRejection', true);
        if (!emit()) warn(reason, number);
        return;
    default:
        if (!emit()) uncaught(errorOf(reason), 'unhandledRejection', true);
    }
}

function isErrorLike(value) {
    return value !== null && typeof value === 'object' && Object.prototype.hasOwnProperty.call(value, 'stack');
}

function warn(reason, number) {
    const name = 'UnhandledPromiseRejectionWarning';
    const warning = new Error('Unhandled promise rejection. This error originated either by throwing inside of an async function without a catch ' +
        'block, or by rejecting a promise which was not handled with .catch(). To terminate the node process on unhandled promise rejection, use ' +
        'the CLI flag `--unhandled-rejections=strict` (see https://nodejs.org/api/cli.html#cli_unhandled_rejections_mode). ' +
        `(rejection id: ${number})`);
    Object.defineProperty(warning, 'name', { value: name, writable: true, enumerable: false, configurable: true });
    warning.stack = `${name}: ${warning.message}`;
    if (isErrorLike(reason)) {
        warning.stack = reason.stack;
        process.emitWarning(String(reason.stack), name);
    } else {
        process.emitWarning(textOf(reason), name);
    }
    process.emitWarning(warning);
}

function textOf(reason) {
    try {
        return reason !== null && typeof reason === 'object' ? `#<${reason.constructor?.name || 'Object'}>` : String(reason);
    } catch {
        return '[object]';
    }
}

// The error for the rejection of a promise, whose reason may be any value.
function errorOf(reason) {
    if (reason instanceof Error || isErrorLike(reason)) return reason;
    const error = new Error('This error originated either by throwing inside of an async function without a catch block, or by rejecting a promise ' +
        `which was not handled with .catch(). The promise rejected with the reason "${textOf(reason)}".`);
    error.code = 'ERR_UNHANDLED_REJECTION';
    error.stack = `UnhandledPromiseRejection: ${error.message}`;
    Object.defineProperty(error, 'name', { value: 'UnhandledPromiseRejection', enumerable: false });
    return error;
}
