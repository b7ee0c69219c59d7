// process.stdin, process.stdout and process.stderr.

import * as native from 'internal:native/process';
import { addSource, removeSource } from 'internal:event_loop';
import Readable from '__wasm_rquickjs_builtin/internal/streams/readable';
import Writable from '__wasm_rquickjs_builtin/internal/streams/writable';
import { Buffer } from 'node:buffer';

const AT_ONCE = 65536;

function brokenPipe() {
    const error = new Error('write EPIPE');
    error.errno = -32;
    error.code = 'EPIPE';
    error.syscall = 'write';
    return error;
}

function put(fd, chunk, encoding) {
    const data = typeof chunk === 'string' && encoding !== undefined && !/^utf-?8$/i.test(encoding) ? Buffer.from(chunk, encoding) : chunk;
    return native.write(fd, data) ? undefined : brokenPipe();
}

// A write is complete when it returns, so most of what a stream does is not needed.
export class Output extends Writable {
    constructor(fd) {
        super({ decodeStrings: false });
        this.fd = fd;
        this._type = native.isTerminal(fd) ? 'tty' : 'pipe';
        this._isStdio = true;
        if (this._type === 'tty') {
            this.isTTY = true;
            this.columns = 80;
            this.rows = 24;
        }
        // Standard streams do not close.
        this.destroySoon = this.destroy;
        this._destroy = (error, callback) => callback(error);
    }

    get readable() {
        return false;
    }

    write(chunk, encoding, callback) {
        const state = this._writableState;
        if (typeof chunk !== 'string' || typeof encoding === 'function' || callback !== undefined || state.corked || state.ending || state.destroyed
            || state.length > 0) {
            return super.write(chunk, encoding, callback);
        }
        const error = put(this.fd, chunk, encoding);
        if (error === undefined) return true;
        return super.write(chunk, encoding, callback);
    }

    _write(chunk, encoding, callback) {
        callback(put(this.fd, chunk, encoding));
    }
}

// What only terminals have.
export class TerminalOutput extends Output {
    getColorDepth(env = globalThis.process.env) {
        if (env.FORCE_COLOR !== undefined) return { 0: 1, 1: 4, 2: 8, 3: 24 }[env.FORCE_COLOR] ?? 4;
        if (!this.isTTY || env.NO_COLOR || env.TERM === 'dumb') return 1;
        return env.COLORTERM === 'truecolor' ? 24 : /256/.test(env.TERM ?? '') ? 8 : 4;
    }

    hasColors(count, env) {
        if (typeof count === 'object') [count, env] = [undefined, count];
        return (count ?? 16) <= 2 ** this.getColorDepth(env);
    }

    getWindowSize() {
        return [this.columns, this.rows];
    }

    cursorTo(x, y, callback) {
        return control(this, typeof y === 'number' ? `\x1b[${y + 1};${x + 1}H` : `\x1b[${x + 1}G`, typeof y === 'function' ? y : callback);
    }

    moveCursor(dx, dy, callback) {
        const horizontally = dx < 0 ? `\x1b[${-dx}D` : dx > 0 ? `\x1b[${dx}C` : '';
        const vertically = dy < 0 ? `\x1b[${-dy}A` : dy > 0 ? `\x1b[${dy}B` : '';
        return control(this, horizontally + vertically, callback);
    }

    clearLine(direction, callback) {
        return control(this, direction < 0 ? '\x1b[1K' : direction > 0 ? '\x1b[0K' : '\x1b[2K', callback);
    }

    clearScreenDown(callback) {
        return control(this, '\x1b[0J', callback);
    }
}

function control(stream, text, callback) {
    return stream.write(text, callback);
}

export class Input extends Readable {
    #source = {
        stdin: true,
        active: false,
        ready: () => this.#read(),
    };

    constructor() {
        super({ highWaterMark: AT_ONCE });
        this.fd = 0;
        if (native.isTerminal(0)) {
            this.isTTY = true;
            this.isRaw = false;
        }
    }

    #read() {
        const chunk = native.readStdin(AT_ONCE);
        if (chunk === undefined) return;
        this.#stop();
        if (chunk === null) this.push(null);
        else this.push(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength));
    }

    #stop() {
        this.#source.active = false;
        removeSource(this.#source);
    }

    _read() {
        this.#source.active = !this.#unreferenced;
        addSource(this.#source);
    }

    #unreferenced = false;

    pause() {
        // A paused stdin does not keep the program alive.
        if (!this.readableFlowing && this._readableState?.reading) this.#source.active = false;
        const result = super.pause();
        this.#source.active = false;
        return result;
    }

    resume() {
        if (this._readableState.reading) this.#source.active = !this.#unreferenced;
        return super.resume();
    }

    ref() {
        this.#unreferenced = false;
        if (this._readableState.reading) this.#source.active = true;
        return this;
    }

    unref() {
        this.#unreferenced = true;
        this.#source.active = false;
        return this;
    }

    setRawMode(raw) {
        this.isRaw = Boolean(raw);
        return this;
    }

    _destroy(error, callback) {
        this.#stop();
        callback(error);
    }
}
