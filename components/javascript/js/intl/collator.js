// Intl.Collator: the order of the Unicode collation's root, in which English sorts, for Latin, Greek and Cyrillic; other scripts in the order
// of their characters.

import { supportedLocalesOf } from 'internal:intl/locales';

const PUNCTUATION = '_-,;:!?.\'"()[]{}@*/\\&#%`^+<=>|~$';
const MARK = /\p{M}/u;
const LETTER = /\p{L}/u;
const DIGIT = /^\p{Nd}$/u;
const SPACE = /\s/u;

// Compares characters by what they are: 'a' and 'Ä' are the same here.
function primary(char) {
    if (SPACE.test(char)) return char.codePointAt(0);
    const at = PUNCTUATION.indexOf(char);
    if (at >= 0) return 0x10000 + at;
    if (DIGIT.test(char)) return 0x300000 + char.codePointAt(0);
    if (LETTER.test(char)) return 0x400000 + char.toLowerCase().codePointAt(0);
    return 0x200000 + char.codePointAt(0);
}

// Splits a text into its characters with their marks, and with `numeric` into its numbers.
function elements(text, { numeric, ignorePunctuation }) {
    const out = [];
    const special = { ß: 'ss', æ: 'ae', Æ: 'AE', œ: 'oe', Œ: 'OE', ø: 'o\u0338', Ø: 'O\u0338', ł: 'l\u0335', Ł: 'L\u0335' };
    const chars = [...text.normalize('NFD').replace(/[ßæÆœŒøØłŁ]/g, (char) => special[char])];
    for (let i = 0; i < chars.length; i++) {
        const char = chars[i];
        if (MARK.test(char)) {
            if (out.length) out.at(-1).marks += char;
            continue;
        }
        if (numeric && DIGIT.test(char)) {
            let digits = char;
            while (i + 1 < chars.length && DIGIT.test(chars[i + 1])) digits += chars[++i];
            const value = digits.replace(/^0+(?=.)/, '');
            out.push({ key: 0x300000, number: value, marks: '', upper: false });
            continue;
        }
        if (ignorePunctuation && (PUNCTUATION.includes(char) || SPACE.test(char))) continue;
        out.push({ key: primary(char), number: undefined, marks: '', upper: char !== char.toLowerCase() });
    }
    return out;
}

const sign = (n) => (n < 0 ? -1 : n > 0 ? 1 : 0);

function comparePrimary(a, b) {
    if (a.number !== undefined && b.number !== undefined) {
        return a.number.length - b.number.length || (a.number < b.number ? -1 : a.number > b.number ? 1 : 0);
    }
    return a.key - b.key;
}

export class Collator {
    #options;
    #compare;

    constructor(locales, options = {}) {
        supportedLocalesOf(locales);
        const { sensitivity = 'variant', numeric = /-u-(?:.*-)?kn(?!-false)/.test(`${locales}`), ignorePunctuation = false, caseFirst = 'false', usage = 'sort' } = options ?? {};
        if (!['base', 'accent', 'case', 'variant'].includes(sensitivity)) {
            throw new RangeError(`Value ${sensitivity} out of range for Intl.Collator options property sensitivity`);
        }
        this.#options = { sensitivity, numeric: Boolean(numeric), ignorePunctuation: Boolean(ignorePunctuation), caseFirst: `${caseFirst}`, usage };
        this.#compare = (a, b) => this.#order(`${a}`, `${b}`);
    }

    get compare() {
        return this.#compare;
    }

    #order(a, b) {
        if (a === b) return 0;
        const options = this.#options;
        const [left, right] = [elements(a, options), elements(b, options)];
        const length = Math.min(left.length, right.length);
        for (let i = 0; i < length; i++) {
            const order = comparePrimary(left[i], right[i]);
            if (order) return sign(order);
        }
        if (left.length !== right.length) return sign(left.length - right.length);
        const { sensitivity } = options;
        if (sensitivity === 'accent' || sensitivity === 'variant') {
            for (let i = 0; i < length; i++) {
                if (left[i].marks !== right[i].marks) return left[i].marks < right[i].marks ? -1 : 1;
            }
        }
        if (sensitivity === 'case' || sensitivity === 'variant') {
            const upperFirst = options.caseFirst === 'upper' ? -1 : 1;
            for (let i = 0; i < length; i++) {
                if (left[i].upper !== right[i].upper) return (left[i].upper ? 1 : -1) * upperFirst;
            }
        }
        return 0;
    }

    resolvedOptions() {
        const { usage, sensitivity, ignorePunctuation, numeric, caseFirst } = this.#options;
        return { locale: 'en-US', usage, sensitivity, ignorePunctuation, collation: 'default', numeric, caseFirst };
    }

    get [Symbol.toStringTag]() { return 'Intl.Collator'; }
    static supportedLocalesOf(locales) { return supportedLocalesOf(locales); }
}
