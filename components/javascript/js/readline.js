// node:readline: lines of a stream, and questions. Editing lines is left to the terminal.

import { EventEmitter } from 'node:events';
import { StringDecoder } from 'node:string_decoder';
import { ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE } from '__wasm_rquickjs_builtin/internal/errors';

export class Interface extends EventEmitter {
    #decoder;
    #rest = '';
    #afterReturn = false;
    #question;
    #iterated = false;
    #removers = [];

    constructor(input, output, completer, terminal) {
        super();
        let options = input;
        if (input === null || typeof input !== 'object' || typeof input.on === 'function') options = { input, output, completer, terminal };
        if (typeof options.input?.on !== 'function') throw new ERR_INVALID_ARG_TYPE('input', 'stream.Readable', options.input);
        this.input = options.input;
        this.output = options.output;
        this.terminal = Boolean(options.terminal ?? this.output?.isTTY);
        this.line = '';
        this.cursor = 0;
        this.history = [];
        this.closed = false;
        this.paused = false;
        this.crlfDelay = Math.max(100, options.crlfDelay ?? 100);
        this._prompt = options.prompt ?? '> ';
        this.#decoder = new StringDecoder('utf8');
        const listen = (event, listener) => {
            this.input.on(event, listener);
            this.#removers.push(() => this.input.removeListener(event, listener));
        };
        listen('data', (chunk) => this.#data(chunk));
        listen('end', () => {
            this.#rest += this.#decoder.end();
            if (this.#rest.length > 0) this.#line(this.#take());
            this.close();
        });
        listen('error', (error) => this.emit('error', error));
        const { signal } = options;
        if (signal) {
            if (signal.aborted) this.close();
            else signal.addEventListener('abort', () => this.close(), { once: true });
        }
        this.input.resume();
    }

    #take() {
        const text = this.#rest;
        this.#rest = '';
        return text;
    }

    #data(chunk) {
        let text = typeof chunk === 'string' ? chunk : this.#decoder.write(chunk);
        if (this.#afterReturn && text.startsWith('\n')) text = text.slice(1);
        this.#afterReturn = text.endsWith('\r');
        const lines = (this.#take() + text).split(/\r\n|\n|\r|\u2028|\u2029/);
        this.#rest = lines.pop();
        for (const line of lines) this.#line(line);
    }

    #line(line) {
        if (this.closed && this.#question === undefined) {
            this.emit('line', line);
            return;
        }
        const question = this.#question;
        if (question !== undefined) {
            this.#question = undefined;
            question(line);
        } else {
            this.emit('line', line);
        }
    }

    getPrompt() {
        return this._prompt;
    }

    setPrompt(prompt) {
        this._prompt = prompt;
    }

    prompt() {
        if (this.paused) this.resume();
        this.output?.write(this._prompt);
    }

    question(query, options, callback) {
        if (typeof options === 'function') [options, callback] = [{}, options];
        if (this.closed) throw Object.assign(new Error('readline was closed'), { code: 'ERR_USE_AFTER_CLOSE' });
        if (this.#question !== undefined) {
            this.prompt();
            return;
        }
        this.output?.write(query);
        const { signal } = options ?? {};
        if (signal?.aborted) return;
        this.#question = callback;
        signal?.addEventListener('abort', () => {
            if (this.#question === callback) this.#question = undefined;
        }, { once: true });
        if (this.paused) this.resume();
    }

    write(data) {
        if (this.paused) this.resume();
        if (data !== undefined && data !== null) this.#data(`${data}`);
    }

    pause() {
        if (this.paused) return this;
        this.input.pause();
        this.paused = true;
        this.emit('pause');
        return this;
    }

    resume() {
        if (!this.paused) return this;
        this.input.resume();
        this.paused = false;
        this.emit('resume');
        return this;
    }

    close() {
        if (this.closed) return;
        this.pause();
        for (const remove of this.#removers) remove();
        this.closed = true;
        this.emit('close');
    }

    getCursorPos() {
        return { rows: 0, cols: this.cursor };
    }

    [Symbol.dispose]() {
        this.close();
    }

    [Symbol.asyncIterator]() {
        const lines = [], waiting = [];
        let ended = this.closed, failure;
        const settle = () => {
            while (waiting.length > 0 && (lines.length > 0 || ended || failure)) {
                const { resolve, reject } = waiting.shift();
                if (lines.length > 0) resolve({ value: lines.shift(), done: false });
                else if (failure) {
                    reject(failure);
                    failure = undefined;
                } else resolve({ value: undefined, done: true });
            }
        };
        this.on('line', (line) => {
            lines.push(line);
            settle();
        });
        this.on('close', () => {
            ended = true;
            settle();
        });
        this.on('error', (error) => {
            failure = error;
            settle();
        });
        return {
            next: () => new Promise((resolve, reject) => {
                waiting.push({ resolve, reject });
                settle();
            }),
            return: () => {
                this.close();
                return Promise.resolve({ value: undefined, done: true });
            },
            [Symbol.asyncIterator]() { return this; },
        };
    }
}

const custom = Symbol.for('nodejs.util.promisify.custom');
function aborted(signal) {
    return Object.assign(new Error('The operation was aborted', { cause: signal.reason }), { name: 'AbortError', code: 'ABORT_ERR' });
}

Object.defineProperty(Interface.prototype.question, custom, {
    value(query, options) {
        return PromisesInterface.prototype.question.call(this, query, options);
    },
});

export function createInterface(input, output, completer, terminal) {
    return new Interface(input, output, completer, terminal);
}

function put(stream, text, callback) {
    if (callback !== undefined && typeof callback !== 'function') throw new ERR_INVALID_ARG_TYPE('callback', 'function', callback);
    if (stream === null || stream === undefined) {
        if (callback) globalThis.process.nextTick(callback, null);
        return true;
    }
    return stream.write(text, callback);
}

export function clearLine(stream, direction, callback) {
    return put(stream, direction < 0 ? '\x1b[1K' : direction > 0 ? '\x1b[0K' : '\x1b[2K', callback);
}

export function clearScreenDown(stream, callback) {
    return put(stream, '\x1b[0J', callback);
}

export function cursorTo(stream, x, y, callback) {
    if (typeof y === 'function') [y, callback] = [undefined, y];
    if (Number.isNaN(x)) throw new ERR_INVALID_ARG_VALUE('x', x);
    return put(stream, typeof y === 'number' ? `\x1b[${y + 1};${x + 1}H` : `\x1b[${x + 1}G`, callback);
}

export function moveCursor(stream, dx, dy, callback) {
    let text = dx < 0 ? `\x1b[${-dx}D` : dx > 0 ? `\x1b[${dx}C` : '';
    text += dy < 0 ? `\x1b[${-dy}A` : dy > 0 ? `\x1b[${dy}B` : '';
    return put(stream, text, callback);
}

export function emitKeypressEvents() {}

// node:readline/promises.
class PromisesInterface extends Interface {
    question(query, options) {
        return new Promise((resolve, reject) => {
            const { signal } = options ?? {};
            const abort = () => reject(aborted(signal));
            if (signal?.aborted) return abort();
            signal?.addEventListener('abort', abort, { once: true });
            try {
                super.question(query, options ?? {}, resolve);
            } catch (error) {
                reject(error);
            }
        });
    }
}

export const promises = {
    Interface: PromisesInterface,
    Readline: class Readline {
        #stream;
        #text = '';
        constructor(stream) { this.#stream = stream; }
        clearLine(direction) { this.#text += direction < 0 ? '\x1b[1K' : direction > 0 ? '\x1b[0K' : '\x1b[2K'; return this; }
        clearScreenDown() { this.#text += '\x1b[0J'; return this; }
        cursorTo(x, y) { this.#text += y === undefined ? `\x1b[${x + 1}G` : `\x1b[${y + 1};${x + 1}H`; return this; }
        moveCursor(dx, dy) { moveCursor({ write: (text) => { this.#text += text; } }, dx, dy); return this; }
        commit() { this.#stream.write(this.#text); this.#text = ''; return Promise.resolve(); }
        rollback() { this.#text = ''; return this; }
    },
    createInterface: (...args) => new PromisesInterface(...args),
};

export default { Interface, createInterface, clearLine, clearScreenDown, cursorTo, moveCursor, emitKeypressEvents, promises };
