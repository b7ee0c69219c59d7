// Intl for English, and the methods of built-in classes that depend on a locale. Lists, plurals, relative times and segments are those of
// wasm-rquickjs.

import { Intl as upstream } from '__wasm_rquickjs_builtin/intl';
import { Collator } from 'internal:intl/collator';
import { DateTimeFormat } from 'internal:intl/dates';
import { DisplayNames, Locale, canonicalLocales, supportedValues } from 'internal:intl/locales';
import { NumberFormat } from 'internal:intl/numbers';

// The classes of Intl can be called without `new`, except the newer ones.
function callable(Class) {
    const proxy = new Proxy(Class, { apply: (target, _, args) => new target(...args) });
    Object.defineProperty(Class.prototype, 'constructor', { value: proxy, writable: true, configurable: true });
    return proxy;
}

export const Intl = Object.create(Object.prototype, { [Symbol.toStringTag]: { value: 'Intl', configurable: true } });
for (const [name, value] of Object.entries({
    getCanonicalLocales: canonicalLocales, supportedValuesOf: supportedValues, DateTimeFormat: callable(DateTimeFormat),
    NumberFormat: callable(NumberFormat), Collator: callable(Collator), PluralRules: upstream.PluralRules,
    RelativeTimeFormat: upstream.RelativeTimeFormat, ListFormat: upstream.ListFormat, Locale, DisplayNames, Segmenter: upstream.Segmenter,
})) {
    Object.defineProperty(Intl, name, { value, writable: true, configurable: true, enumerable: false });
}

// The methods without a locale and options are called most, in comparisons of sorts.
const formats = new Map();

function format(kind, locales, options) {
    if (locales !== undefined || options !== undefined) return new Intl[kind](locales, options);
    let known = formats.get(kind);
    if (known === undefined) formats.set(kind, known = new Intl[kind]());
    return known;
}

const DATE = ['weekday', 'year', 'month', 'day'];
const TIME = ['dayPeriod', 'hour', 'minute', 'second', 'fractionalSecondDigits'];

// ECMA-402, ToDateTimeOptions: the fields that are there if the options name none.
function dateOptions(options, required, defaults) {
    const out = { ...options };
    if (out.dateStyle !== undefined || out.timeStyle !== undefined) {
        if (required === DATE && out.timeStyle !== undefined) throw new TypeError('Invalid option : timeStyle');
        if (required === TIME && out.dateStyle !== undefined) throw new TypeError('Invalid option : dateStyle');
        return out;
    }
    if (required.some((name) => out[name] !== undefined)) return out;
    if (defaults.includes('date')) Object.assign(out, { year: 'numeric', month: 'numeric', day: 'numeric' });
    if (defaults.includes('time')) Object.assign(out, { hour: 'numeric', minute: '2-digit', second: '2-digit' });
    return out;
}

function formatDate(date, locales, options, required, ...defaults) {
    const time = Date.prototype.getTime.call(date);
    if (Number.isNaN(time)) return 'Invalid Date';
    return new Intl.DateTimeFormat(locales, dateOptions(options, required, defaults)).format(time);
}

const methods = [
    [Date.prototype, {
        toLocaleString(locales, options) { return formatDate(this, locales, options, [...DATE, ...TIME], 'date', 'time'); },
        toLocaleDateString(locales, options) { return formatDate(this, locales, options, DATE, 'date'); },
        toLocaleTimeString(locales, options) { return formatDate(this, locales, options, TIME, 'time'); },
    }],
    [Number.prototype, {
        toLocaleString(locales, options) { return format('NumberFormat', locales, options).format(Number.prototype.valueOf.call(this)); },
    }],
    [BigInt.prototype, {
        toLocaleString(locales, options) { return format('NumberFormat', locales, options).format(BigInt.prototype.valueOf.call(this)); },
    }],
    [String.prototype, {
        localeCompare(that, locales, options) {
            if (this === null || this === undefined) throw new TypeError('String.prototype.localeCompare called on null or undefined');
            return format('Collator', locales, options).compare(`${this}`, `${that}`);
        },
    }],
];
for (const [prototype, named] of methods) {
    for (const [name, value] of Object.entries(named)) {
        Object.defineProperty(prototype, name, { value, writable: true, configurable: true, enumerable: false });
    }
}
