// node:readline: lines of a stream, questions, and the editing of lines on a terminal.

import { EventEmitter, on } from 'node:events';
import { StringDecoder } from 'node:string_decoder';
import { AbortError, ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE } from '__wasm_rquickjs_builtin/internal/errors';
import { getStringWidth, inspect, stripVTControlCharacters } from '__wasm_rquickjs_builtin/internal/util/inspect';
import { validateAbortSignal, validateArray, validateNumber, validateString, validateUint32 } from '__wasm_rquickjs_builtin/internal/validators';
import { emitKeypressEvents } from 'internal:keypress';
import { nextTick } from 'internal:event_loop';

const LINE_END = /\r?\n|\r(?!\n)|\u2028|\u2029/g;
const MOST_UNDONE = 2048, MOST_KILLED = 32;

const state = Symbol('state');
const stream = Symbol('line object stream');

// A class whose constructor programs may call without `new`.
export function Interface(input, output, completer, terminal) {
    if (!(this instanceof Interface)) return new Interface(input, output, completer, terminal);
    Reflect.apply(EventEmitter, this, []);
    setUp(this, input?.input ? input : { input, output, completer, terminal });
}

function setUp(rl, options) {
    const { input, output, completer, history = [], historySize = 30, signal } = options;
    Object.defineProperty(rl, state, {
        value: {
            prompt: '> ', oldPrompt: '', buffer: '', decoder: undefined, sawReturnAt: 0, question: null, previousKey: null, search: null,
            undo: [], redo: [], killed: [], killedAt: 0, yanking: false, sawKeyPress: false,
        },
    });
    rl.isCompletionEnabled = true;
    rl.escapeCodeTimeout = 500;
    rl.tabSize = 8;
    if (options.tabSize !== undefined) {
        validateUint32(options.tabSize, 'tabSize', true);
        rl.tabSize = options.tabSize;
    }
    if (options.escapeCodeTimeout !== undefined) {
        if (!Number.isFinite(options.escapeCodeTimeout)) throw new ERR_INVALID_ARG_VALUE('input.escapeCodeTimeout', rl.escapeCodeTimeout);
        rl.escapeCodeTimeout = options.escapeCodeTimeout;
    }
    if (signal) validateAbortSignal(signal, 'options.signal');
    if (completer !== undefined && typeof completer !== 'function') throw new ERR_INVALID_ARG_VALUE('completer', completer);
    validateArray(history, 'history');
    validateNumber(historySize, 'historySize', 0);
    if (typeof input?.on !== 'function') throw new ERR_INVALID_ARG_TYPE('input', 'stream.Readable', input);
    rl.line = '';
    rl.output = output;
    rl.input = input;
    rl.history = history;
    rl.historyIndex = -1;
    rl.historySize = historySize;
    rl.removeHistoryDuplicates = Boolean(options.removeHistoryDuplicates);
    rl.crlfDelay = options.crlfDelay ? Math.max(100, options.crlfDelay) : 100;
    rl.completer = completer;
    rl.setPrompt(options.prompt ?? '> ');
    rl.terminal = Boolean(options.terminal ?? output?.isTTY);
    listen(rl);
    if (signal) closeAt(rl, signal);
    input.resume();
}

function listen(rl) {
    const { input, output } = rl;
    const added = [];
    const add = (emitter, event, listener) => {
        emitter.on(event, listener);
        added.push(() => emitter.removeListener(event, listener));
    };
    const end = (left) => {
        if (typeof left === 'string' && left.length > 0) rl.emit('line', left);
        rl.close();
    };
    add(input, 'error', (error) => rl.emit('error', error));
    if (!rl.terminal) {
        rl._decoder = new StringDecoder('utf8');
        add(input, 'data', (data) => rl._normalWrite(data));
        add(input, 'end', () => end(rl._line_buffer));
    } else {
        emitKeypressEvents(input, rl);
        add(input, 'keypress', (text, key) => {
            rl._ttyWrite(text, key);
            // Half of a character: the terminal shows the whole one.
            const unit = key?.sequence ? key.sequence.codePointAt(0) : 0;
            if (unit >= 0xd800 && unit <= 0xdfff) rl._refreshLine();
        });
        add(input, 'end', () => end(rl.line));
        rl._setRawMode(true);
        rl.cursor = 0;
        if (output !== null && output !== undefined) add(output, 'resize', () => rl._refreshLine());
    }
    rl.once('close', () => {
        for (const remove of added) remove();
    });
}

function closeAt(rl, signal) {
    const close = () => rl.close();
    if (signal.aborted) {
        nextTick(close);
        return;
    }
    signal.addEventListener('abort', close, { once: true });
    rl.once('close', () => signal.removeEventListener('abort', close));
}

// The number of units of the character before, and at, a place.
function lengthBefore(text, at) {
    if (at <= 0) return 0;
    return at > 1 && text.codePointAt(at - 2) >= 0x10000 ? 2 : 1;
}

function lengthAt(text, at) {
    return text.codePointAt(at) >= 0x10000 ? 2 : 1;
}

// The part of a line before the cursor that a word and the spaces after it take.
function wordBefore(text) {
    const backwards = [...text].reverse().join('');
    return /^\s*(?:[^\w\s]+|\w+)?/.exec(backwards)[0].length;
}

function commonStart(texts) {
    if (texts.length === 0) return '';
    let [start] = texts;
    for (const text of texts) while (!text.startsWith(start)) start = start.slice(0, -1);
    return start;
}

class Methods extends EventEmitter {
    get columns() {
        return this.output?.columns || Infinity;
    }

    setPrompt(prompt) {
        this[state].prompt = prompt;
    }

    getPrompt() {
        return this[state].prompt;
    }

    prompt(preserveCursor) {
        if (this.paused) this.resume();
        if (this.terminal && globalThis.process.env.TERM !== 'dumb') {
            if (!preserveCursor) this.cursor = 0;
            this._refreshLine();
        } else {
            this._writeToOutput(this[state].prompt);
        }
    }

    question(query, options, callback) {
        if (typeof options === 'function') [options, callback] = [{}, options];
        const { signal } = options ?? {};
        if (signal) {
            validateAbortSignal(signal, 'options.signal');
            if (signal.aborted) return;
            const onAbort = () => this._cancelQuestion();
            signal.addEventListener('abort', onAbort, { once: true });
            const answer = callback;
            if (typeof answer === 'function') {
                callback = (line) => {
                    signal.removeEventListener('abort', onAbort);
                    return answer(line);
                };
            }
        }
        if (typeof callback === 'function') this._question(query, callback);
    }

    pause() {
        if (this.paused) return undefined;
        this.input.pause();
        this.paused = true;
        this.emit('pause');
        return this;
    }

    resume() {
        if (!this.paused) return undefined;
        this.input.resume();
        this.paused = false;
        this.emit('resume');
        return this;
    }

    close() {
        if (this.closed) return;
        this.pause();
        if (this.terminal) this._setRawMode(false);
        this.closed = true;
        this.emit('close');
    }

    write(text, key) {
        if (this.paused) this.resume();
        if (this.terminal) this._ttyWrite(text, key);
        else this._normalWrite(text);
    }

    clearLine() {
        this._moveCursor(Infinity);
        this._writeToOutput('\r\n');
        this.line = '';
        this.cursor = 0;
        this.prevRows = 0;
    }

    // The row and the column of the cursor, from the start of the prompt.
    getCursorPos() {
        return this._getDisplayPos(this[state].prompt + this.line.slice(0, this.cursor));
    }

    [Symbol.dispose]() {
        this.close();
    }

    [Symbol.asyncIterator]() {
        if (this[stream] === undefined) Object.defineProperty(this, stream, { value: lines(this) });
        return this[stream];
    }

    _question(query, callback) {
        if (this.closed) throw Object.assign(new Error('readline was closed'), { code: 'ERR_USE_AFTER_CLOSE' });
        const own = this[state];
        if (own.question === null) {
            own.oldPrompt = own.prompt;
            this.setPrompt(query);
            own.question = callback;
        }
        this.prompt();
    }

    _cancelQuestion() {
        const own = this[state];
        if (own.question === null) return;
        own.question = null;
        this.setPrompt(own.oldPrompt);
        this.clearLine();
    }

    _onLine(line) {
        const own = this[state];
        const { question } = own;
        if (question === null) {
            this.emit('line', line);
            return;
        }
        own.question = null;
        this.setPrompt(own.oldPrompt);
        question(line);
    }

    _setRawMode(mode) {
        const before = this.input.isRaw;
        if (typeof this.input.setRawMode === 'function') this.input.setRawMode(mode);
        return before;
    }

    _writeToOutput(text) {
        validateString(text, 'stringToWrite');
        if (this.output !== null && this.output !== undefined) this.output.write(text);
    }

    // Takes what came in from something other than a terminal.
    _normalWrite(data) {
        if (data === undefined) return;
        const own = this[state];
        let text = own.decoder.write(data);
        if (own.sawReturnAt > 0 && Date.now() - own.sawReturnAt <= this.crlfDelay) {
            if (text.startsWith('\n')) text = text.slice(1);
            own.sawReturnAt = 0;
        }
        if (text === '') return;
        const parts = /[\r\u2028\u2029]/.test(text) ? text.split(LINE_END) : text.split('\n');
        if (parts.length > 1) own.sawReturnAt = text.endsWith('\r') ? Date.now() : 0;
        parts[0] = own.buffer + parts[0];
        own.buffer = parts.pop();
        for (const line of parts) this._onLine(line);
    }

    _addHistory() {
        const { line, history } = this;
        if (line.length === 0) return '';
        if (this.historySize === 0 || line.trim().length === 0) return line;
        if (history[0] !== line) {
            if (this.removeHistoryDuplicates && history.includes(line)) history.splice(history.indexOf(line), 1);
            history.unshift(line);
            if (history.length > this.historySize) history.pop();
        }
        this.historyIndex = -1;
        const [added] = history;
        this.emit('history', history);
        return added;
    }

    // Writes the prompt and the line again, and puts the cursor in its place.
    _refreshLine() {
        const shown = this[state].prompt + this.line;
        const end = this._getDisplayPos(shown), at = this.getCursorPos();
        if (this.prevRows > 0) moveCursor(this.output, 0, -this.prevRows);
        cursorTo(this.output, 0);
        clearScreenDown(this.output);
        this._writeToOutput(shown);
        // Makes the terminal begin the row that the line has just filled the one before of.
        if (end.cols === 0) this._writeToOutput(' ');
        cursorTo(this.output, at.cols);
        if (end.rows > at.rows) moveCursor(this.output, 0, at.rows - end.rows);
        this.prevRows = at.rows;
    }

    _getDisplayPos(text) {
        const { columns } = this;
        let offset = 0, rows = 0;
        for (const character of stripVTControlCharacters(text)) {
            if (character === '\n') {
                rows += Math.ceil(offset / columns) || 1;
                offset = 0;
                continue;
            }
            if (character === '\t') {
                offset += this.tabSize - (offset % this.tabSize);
                continue;
            }
            const width = getStringWidth(character, false);
            // What is two columns wide does not begin in the last one.
            if (width === 2 && (offset + 1) % columns === 0) offset += 1;
            offset += width;
        }
        const cols = offset % columns;
        return { cols, rows: rows + (offset - cols) / columns };
    }

    _moveCursor(by) {
        if (by === 0) return;
        const before = this.getCursorPos();
        this.cursor = Math.min(Math.max(this.cursor + by, 0), this.line.length);
        const after = this.getCursorPos();
        if (before.rows === after.rows) moveCursor(this.output, after.cols - before.cols, 0);
        else this._refreshLine();
    }

    // Replaces a part of the line, so that it can be undone.
    _edit(from, to, text) {
        const own = this[state];
        own.undo.push({ text: this.line, cursor: this.cursor });
        if (own.undo.length > MOST_UNDONE) own.undo.shift();
        this.line = this.line.slice(0, from) + text + this.line.slice(to);
        this.cursor = from + text.length;
    }

    _insertString(text) {
        const atEnd = this.cursor >= this.line.length;
        const before = atEnd ? this.getCursorPos() : undefined;
        this._edit(this.cursor, this.cursor, text);
        if (!this.isCompletionEnabled || (atEnd && this.getCursorPos().rows <= before.rows)) this._writeToOutput(text);
        else this._refreshLine();
    }

    _deleteLeft() {
        if (this.cursor <= 0) return;
        this._edit(this.cursor - lengthBefore(this.line, this.cursor), this.cursor, '');
        this._refreshLine();
    }

    _deleteRight() {
        if (this.cursor >= this.line.length) return;
        this._edit(this.cursor, this.cursor + lengthAt(this.line, this.cursor), '');
        this._refreshLine();
    }

    _deleteWordLeft() {
        if (this.cursor <= 0) return;
        this._edit(this.cursor - wordBefore(this.line.slice(0, this.cursor)), this.cursor, '');
        this._refreshLine();
    }

    _deleteWordRight() {
        if (this.cursor >= this.line.length) return;
        this._edit(this.cursor, this.cursor + /^(?:\s+|\W+|\w+)\s*/.exec(this.line.slice(this.cursor))[0].length, '');
        this._refreshLine();
    }

    _deleteLineLeft() {
        this._kill(0, this.cursor);
    }

    _deleteLineRight() {
        this._kill(this.cursor, this.line.length);
    }

    // Removes a part of the line that can be inserted again.
    _kill(from, to) {
        const { killed } = this[state];
        const text = this.line.slice(from, to);
        this._edit(from, to, '');
        if (text !== '' && text !== killed[0]) {
            killed.unshift(text);
            if (killed.length > MOST_KILLED) killed.pop();
            this[state].killedAt = 0;
        }
        this._refreshLine();
    }

    _yank() {
        const own = this[state];
        if (own.killed.length === 0) return;
        own.yanking = true;
        this._insertString(own.killed[own.killedAt]);
    }

    // Replaces what was inserted last by what was removed before it.
    _yankPop() {
        const own = this[state];
        if (!own.yanking || own.killed.length < 2) return;
        const last = own.killed[own.killedAt];
        own.killedAt = (own.killedAt + 1) % own.killed.length;
        this._edit(this.cursor - last.length, this.cursor, own.killed[own.killedAt]);
        this._refreshLine();
    }

    _undo() {
        this._restore(this[state].undo, this[state].redo);
    }

    _redo() {
        this._restore(this[state].redo, this[state].undo);
    }

    _restore(from, to) {
        if (from.length === 0) return;
        to.push({ text: this.line, cursor: this.cursor });
        ({ text: this.line, cursor: this.cursor } = from.pop());
        this._refreshLine();
    }

    _wordLeft() {
        this._moveCursor(-wordBefore(this.line.slice(0, this.cursor)));
    }

    _wordRight() {
        if (this.cursor < this.line.length) this._moveCursor(/^(?:\s+|[^\w\s]+|\w+)\s*/.exec(this.line.slice(this.cursor))[0].length);
    }

    // Shows the next older line that begins as the line did when the search began; `step` -1 is the next newer one.
    _historyStep(step) {
        const search = this[state].search ?? '';
        const { history } = this;
        let index = this.historyIndex + step;
        while (index >= 0 && index < history.length && (!history[index].startsWith(search) || history[index] === this.line)) index += step;
        index = Math.max(-1, Math.min(index, history.length));
        this._edit(0, this.line.length, history[index] ?? search);
        this.historyIndex = index;
        this._refreshLine();
    }

    _historyPrev() {
        if (this.historyIndex < this.history.length && this.history.length > 0) this._historyStep(1);
    }

    _historyNext() {
        if (this.historyIndex >= 0) this._historyStep(-1);
    }

    // The end of a line that was edited.
    _line() {
        const line = this._addHistory();
        this[state].undo = [];
        this[state].redo = [];
        this.clearLine();
        this._onLine(line);
    }

    _tabComplete(again) {
        this.pause();
        const done = (error, value) => {
            this.resume();
            if (error) this._writeToOutput(`Tab completion error: ${inspect(error)}`);
            else this._complete(again, value);
        };
        const text = this.line.slice(0, this.cursor);
        if (this[isPromise]) {
            Promise.resolve(text).then(this.completer).then((value) => done(null, value), done);
        } else if (this.completer.length === 2) {
            this.completer(text, done);
        } else {
            done(null, this.completer(text));
        }
    }

    _complete(again, [completions, given]) {
        if (!completions || completions.length === 0) return;
        const start = commonStart(completions.filter((completion) => completion !== ''));
        if (start.startsWith(given) && start.length > given.length) {
            this._insertString(start.slice(given.length));
            return;
        }
        if (!given.startsWith(start)) {
            this._edit(this.cursor - given.length, this.cursor, start);
            this._refreshLine();
            return;
        }
        if (!again) return;
        this._writeToOutput(columnsOf(completions, this.columns));
        this._refreshLine();
    }

    // Takes a key of the terminal.
    _ttyWrite(text, key) {
        const own = this[state];
        const { previousKey } = own;
        key ??= {};
        own.previousKey = key;
        if (!key.meta || key.name !== 'y') own.yanking = false;
        const isPlain = !key.ctrl && !key.meta;
        if ((key.name === 'up' || key.name === 'down') && isPlain && !key.shift) {
            own.search ??= this.line.slice(0, this.cursor);
        } else if (own.search !== null) {
            own.search = null;
            if (this.history.length === this.historyIndex) this.historyIndex = -1;
        }
        if (key.sequence === '\x1f') this._undo();
        else if (key.sequence === '\x1e') this._redo();
        else if (key.name === 'escape') return;
        else if (isPlain) this._plainKey(text, key, previousKey);
        else (key.ctrl && key.shift ? WITH_BOTH : key.ctrl ? WITH_CTRL : WITH_META)[key.name]?.(this);
    }

    _plainKey(text, key, previousKey) {
        const own = this[state];
        if (own.sawReturnAt > 0 && key.name !== 'enter') own.sawReturnAt = 0;
        if (key.name === 'return') {
            own.sawReturnAt = Date.now();
            this._line();
        } else if (key.name === 'enter') {
            const isNew = own.sawReturnAt === 0 || Date.now() - own.sawReturnAt > this.crlfDelay;
            if (isNew) this._line();
            own.sawReturnAt = 0;
        } else if (key.name === 'tab' && typeof this.completer === 'function' && this.isCompletionEnabled) {
            this._tabComplete(previousKey?.name === 'tab');
        } else if (Object.hasOwn(PLAIN, key.name ?? '')) {
            PLAIN[key.name](this);
        } else if (typeof text === 'string' && text !== '') {
            const parts = text.split(LINE_END);
            const last = parts.pop();
            for (const part of parts) {
                if (part !== '') this._insertString(part);
                this._line();
            }
            if (last !== '') this._insertString(last);
        }
    }
}

const PLAIN = {
    backspace: (rl) => rl._deleteLeft(), delete: (rl) => rl._deleteRight(), home: (rl) => rl._moveCursor(-Infinity),
    end: (rl) => rl._moveCursor(Infinity), up: (rl) => rl._historyPrev(), down: (rl) => rl._historyNext(),
    left: (rl) => rl._moveCursor(-lengthBefore(rl.line, rl.cursor)), right: (rl) => rl._moveCursor(lengthAt(rl.line, rl.cursor)),
};

const WITH_CTRL = {
    c: (rl) => (rl.listenerCount('SIGINT') > 0 ? rl.emit('SIGINT') : stop(rl, 'C')),
    d: (rl) => (rl.cursor === 0 && rl.line.length === 0 ? stop(rl, 'D') : rl._deleteRight()),
    h: (rl) => rl._deleteLeft(), u: (rl) => rl._deleteLineLeft(), k: (rl) => rl._deleteLineRight(), a: PLAIN.home, e: PLAIN.end, b: PLAIN.left,
    f: PLAIN.right, n: PLAIN.down, p: PLAIN.up, y: (rl) => rl._yank(), w: (rl) => rl._deleteWordLeft(), backspace: (rl) => rl._deleteWordLeft(),
    delete: (rl) => rl._deleteWordRight(), left: (rl) => rl._wordLeft(), right: (rl) => rl._wordRight(), z: (rl) => rl.emit('SIGTSTP'),
    l: (rl) => {
        cursorTo(rl.output, 0, 0);
        clearScreenDown(rl.output);
        rl._refreshLine();
    },
};

const WITH_META = {
    b: (rl) => rl._wordLeft(), f: (rl) => rl._wordRight(), d: (rl) => rl._deleteWordRight(), delete: (rl) => rl._deleteWordRight(),
    backspace: (rl) => rl._deleteWordLeft(), y: (rl) => rl._yankPop(),
};

const WITH_BOTH = { backspace: (rl) => rl._deleteLineLeft(), delete: (rl) => rl._deleteLineRight() };

// The user ends the input with ctrl and a letter.
function stop(rl, letter) {
    rl.close();
    rl[rejectQuestion]?.(new AbortError(`Aborted with Ctrl+${letter}`));
}

const isPromise = Symbol('isPromise'), rejectQuestion = Symbol('rejectQuestion');

function columnsOf(completions, columns) {
    const widths = completions.map((completion) => getStringWidth(completion));
    const width = Math.max(...widths) + 2;
    const most = columns === Infinity ? 1 : Math.floor(columns / width) || 1;
    let text = '\r\n', inRow = 0, padding = 0;
    for (const [index, completion] of completions.entries()) {
        if (completion === '' || inRow === most) {
            text += '\r\n';
            inRow = padding = 0;
        } else {
            text += ' '.repeat(padding);
        }
        if (completion === '') {
            text += '\r\n';
            continue;
        }
        text += completion;
        padding = width - widths[index];
        inRow += 1;
    }
    return inRow === 0 ? text : `${text}\r\n\r\n`;
}

// The lines of an interface, which pauses while many wait.
function lines(rl) {
    const events = on(rl, 'line', { close: ['close'], highWaterMark: 1024 });
    const iterator = Object.create(events);
    iterator.next = async () => {
        const { value, done } = await events.next();
        return { value: done ? value : value[0], done };
    };
    return iterator;
}

function isDumb() {
    return globalThis.process.env.TERM === 'dumb';
}

// Prototypes of functions have no methods of classes.
for (const [name, descriptor] of Object.entries(Object.getOwnPropertyDescriptors(Methods.prototype))) {
    if (name !== 'constructor') Object.defineProperty(Interface.prototype, name, descriptor);
}
for (const symbol of [Symbol.dispose, Symbol.asyncIterator]) {
    Object.defineProperty(Interface.prototype, symbol, Object.getOwnPropertyDescriptor(Methods.prototype, symbol));
}
// What programs reach for of Node's implementation.
for (const [name, key] of Object.entries({
    _prompt: 'prompt', _oldPrompt: 'oldPrompt', _line_buffer: 'buffer', _decoder: 'decoder', _sawReturnAt: 'sawReturnAt', _sawKeyPress: 'sawKeyPress',
    _questionCallback: 'question', _previousKey: 'previousKey',
})) {
    Object.defineProperty(Interface.prototype, name, {
        get() { return this[state][key]; },
        set(value) { this[state][key] = value; },
        configurable: true,
    });
}
Object.setPrototypeOf(Interface.prototype, EventEmitter.prototype);
Object.setPrototypeOf(Interface, EventEmitter);

Object.defineProperty(Interface.prototype.question, Symbol.for('nodejs.util.promisify.custom'), {
    value(query, options) {
        return ask(this, query, options, Interface.prototype.question);
    },
});

function ask(rl, query, options, question) {
    return new Promise((resolve, reject) => {
        const { signal } = options ?? {};
        const abort = () => {
            reject(new AbortError(undefined, { cause: signal.reason }));
        };
        if (signal) {
            validateAbortSignal(signal, 'options.signal');
            if (signal.aborted) {
                abort();
                return;
            }
            signal.addEventListener('abort', abort, { once: true });
        }
        Object.defineProperty(rl, rejectQuestion, { value: reject, configurable: true, writable: true });
        Reflect.apply(question, rl, [query, options ?? {}, (line) => {
            signal?.removeEventListener('abort', abort);
            resolve(line);
        }]);
    });
}

export function createInterface(input, output, completer, terminal) {
    return new Interface(input, output, completer, terminal);
}

function put(stream, text, callback) {
    if (callback !== undefined && typeof callback !== 'function') throw new ERR_INVALID_ARG_TYPE('callback', 'function', callback);
    if (stream === null || stream === undefined || text === '') {
        if (callback) nextTick(callback, null);
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
    if (callback !== undefined && typeof callback !== 'function') throw new ERR_INVALID_ARG_TYPE('callback', 'function', callback);
    if (Number.isNaN(x)) throw new ERR_INVALID_ARG_VALUE('x', x);
    if (Number.isNaN(y)) throw new ERR_INVALID_ARG_VALUE('y', y);
    if (stream === null || stream === undefined || (typeof x !== 'number' && typeof y !== 'number')) return put(null, '', callback);
    if (typeof x !== 'number') throw Object.assign(new TypeError('Cannot set cursor row without setting its column'), { code: 'ERR_INVALID_CURSOR_POS' });
    return put(stream, typeof y === 'number' ? `\x1b[${y + 1};${x + 1}H` : `\x1b[${x + 1}G`, callback);
}

export function moveCursor(stream, dx, dy, callback) {
    let text = dx < 0 ? `\x1b[${-dx}D` : dx > 0 ? `\x1b[${dx}C` : '';
    text += dy < 0 ? `\x1b[${-dy}A` : dy > 0 ? `\x1b[${dy}B` : '';
    return put(stream, text, callback);
}

export { emitKeypressEvents };

// node:readline/promises.
class PromisesInterface extends Interface {
    get [isPromise]() {
        return true;
    }

    question(query, options) {
        return ask(this, query, options, Interface.prototype.question);
    }
}

export const promises = {
    Interface: PromisesInterface,
    Readline: class Readline {
        #stream;
        #text = '';
        #autoCommit;
        constructor(stream, options = undefined) {
            if (typeof stream?.write !== 'function') throw new ERR_INVALID_ARG_TYPE('stream', 'Writable', stream);
            this.#stream = stream;
            this.#autoCommit = Boolean(options?.autoCommit);
        }
        #add(text) {
            if (this.#autoCommit) nextTick(() => this.#stream.write(text));
            else this.#text += text;
            return this;
        }
        clearLine(direction) { return this.#add(direction < 0 ? '\x1b[1K' : direction > 0 ? '\x1b[0K' : '\x1b[2K'); }
        clearScreenDown() { return this.#add('\x1b[0J'); }
        cursorTo(x, y) { return this.#add(y === undefined ? `\x1b[${x + 1}G` : `\x1b[${y + 1};${x + 1}H`); }
        moveCursor(dx, dy) {
            let text = '';
            moveCursor({ write: (part) => { text += part; } }, dx, dy);
            return this.#add(text);
        }
        commit() {
            const text = this.#text;
            this.#text = '';
            return new Promise((resolve) => this.#stream.write(text, resolve));
        }
        rollback() { this.#text = ''; return this; }
    },
    createInterface: (input, output, completer, terminal) => new PromisesInterface(input, output, completer, terminal),
};

export default { Interface, createInterface, clearLine, clearScreenDown, cursorTo, moveCursor, emitKeypressEvents, promises };
