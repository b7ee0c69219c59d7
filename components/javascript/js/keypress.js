// What the bytes of a terminal say about keys: `emitKeypressEvents` of node:readline.

import { StringDecoder } from 'node:string_decoder';
import { clearTimeout, setTimeout } from 'internal:timers';

const ESC = '\x1b';
const MILLISECONDS = 500;
const decoders = Symbol('keypress-decoder');

// The names of keys by the codes of terminals. A code that ends with `~` has the same name with the ends that rxvt has for shift and ctrl.
const NAMES = new Map();
for (const [name, codes] of Object.entries({
    f1: 'OP [P [11~ [[A', f2: 'OQ [Q [12~ [[B', f3: 'OR [R [13~ [[C', f4: 'OS [S [14~ [[D', f5: '[15~ [[E', f6: '[17~', f7: '[18~', f8: '[19~',
    f9: '[20~', f10: '[21~', f11: '[23~', f12: '[24~', up: '[A OA', down: '[B OB', right: '[C OC', left: '[D OD', clear: '[E OE', end: '[F OF [4~ [8~',
    home: '[H OH [1~ [7~', insert: '[2~', delete: '[3~', pageup: '[5~ [[5~', pagedown: '[6~ [[6~', 'paste-start': '[200~', 'paste-end': '[201~',
})) {
    for (const code of codes.split(' ')) NAMES.set(code, [name]);
}
for (const [letter, name] of [['a', 'up'], ['b', 'down'], ['c', 'right'], ['d', 'left'], ['e', 'clear']]) {
    NAMES.set(`[${letter}`, [name, 'shift']);
    NAMES.set(`O${letter}`, [name, 'ctrl']);
}
for (const [digit, name] of [['2', 'insert'], ['3', 'delete'], ['5', 'pageup'], ['6', 'pagedown'], ['7', 'home'], ['8', 'end']]) {
    NAMES.set(`[${digit}$`, [name, 'shift']);
    NAMES.set(`[${digit}^`, [name, 'ctrl']);
}
NAMES.set('[Z', ['tab', 'shift']);

const CONTROLS = new Map([['\r', 'return'], ['\n', 'enter'], ['\t', 'tab'], ['\b', 'backspace'], ['\x7f', 'backspace'], [ESC, 'escape'], [' ', 'space']]);

// What follows the escape: whole sequences of the two kinds that have more than one character.
const LETTER = /^O(?:\d[^]|[^\d])$/;
const NUMBERS = /^\[\[?(?:[^\d;[]|\d[^\d;]|\d\d[^\d;]|\d{3}[^]|\d{0,3};(?:[^\d]|\d[^]))$/;

function isWhole(text) {
    if (text[0] !== ESC) return true;
    const rest = text.slice(text[1] === ESC ? 2 : 1);
    if (rest === '') return false;
    if (rest[0] === 'O') return LETTER.test(rest);
    return rest[0] !== '[' || NUMBERS.test(rest);
}

// The code of a sequence without its modifier, and the modifier.
function codeOf(rest) {
    if (rest[0] === 'O') return rest.length === 3 ? [`O${rest[2]}`, rest[1] - 1] : [rest, 0];
    const [, start, body] = /^(\[\[?)([^]*)$/.exec(rest);
    let found = /^(\d\d?)(?:;(\d))?([~^$])$/.exec(body);
    if (found) return [start + found[1] + found[3], (found[2] ?? 1) - 1];
    found = /^(?:(?:\d;)?(\d))?([A-Za-z])$/.exec(body);
    if (found) return [start + found[2], (found[1] ?? 1) - 1];
    return [rest, 0];
}

function keyOf(text) {
    const key = { sequence: text, name: undefined, ctrl: false, meta: false, shift: false };
    const escaped = text[0] === ESC;
    // A third escape is a key of its own.
    const rest = escaped ? text.slice(text[1] === ESC ? 2 : 1) : text;
    if (escaped && rest.length > 1 && (rest[0] === 'O' || rest[0] === '[')) {
        const [code, modifier] = codeOf(rest);
        const [name, held] = NAMES.get(code) ?? ['undefined'];
        Object.assign(key, { name, code, ctrl: Boolean(modifier & 4), meta: Boolean(modifier & 10), shift: Boolean(modifier & 1) });
        if (held !== undefined) key[held] = true;
    } else if (CONTROLS.has(rest)) {
        key.name = CONTROLS.get(rest);
        key.meta = escaped;
    } else if (!escaped && rest <= '\x1a') {
        key.name = String.fromCharCode(rest.charCodeAt(0) + 96);
        key.ctrl = true;
    } else if (/^[0-9A-Za-z]$/.test(rest)) {
        key.name = rest.toLowerCase();
        key.shift = /^[A-Z]$/.test(rest);
        key.meta = escaped;
    } else if (escaped) {
        key.name = rest === '' ? 'escape' : undefined;
        key.meta = true;
    }
    return key;
}

// Makes a stream emit `keypress` while it has listeners of that. `iface` is told which character is the last of a chunk.
export function emitKeypressEvents(stream, iface = {}) {
    if (stream[decoders] !== undefined) return;
    const decoder = new StringDecoder('utf8');
    Object.defineProperty(stream, decoders, { value: decoder, configurable: true });
    const { escapeCodeTimeout = MILLISECONDS } = iface;
    let pending = '', timer;

    const emit = (text) => {
        pending = '';
        const key = keyOf(text);
        stream.emit('keypress', text[0] === ESC ? undefined : text, key);
    };
    const take = (character) => {
        pending += character;
        if (isWhole(pending)) emit(pending);
    };
    const onData = (chunk) => {
        if (stream.listenerCount('keypress') === 0) {
            stream.removeListener('data', onData);
            stream.on('newListener', onListener);
            return;
        }
        const text = decoder.write(chunk);
        if (text === '') return;
        clearTimeout(timer);
        const characters = [...text];
        iface._sawKeyPress = characters.length === 1;
        iface.isCompletionEnabled = false;
        for (const [index, character] of characters.entries()) {
            const isLast = index === characters.length - 1;
            if (isLast) iface.isCompletionEnabled = true;
            try {
                take(character);
            } catch (error) {
                pending = '';
                throw error;
            }
            if (isLast && character === ESC && pending !== '') timer = setTimeout(() => pending !== '' && emit(pending), escapeCodeTimeout);
        }
    };
    const onListener = (event) => {
        if (event !== 'keypress') return;
        stream.on('data', onData);
        stream.removeListener('newListener', onListener);
    };
    if (stream.listenerCount('keypress') > 0) stream.on('data', onData);
    else stream.on('newListener', onListener);
}
