// Intl.DateTimeFormat, in the orders of the United States and of the United Kingdom, and the ISO order of Canada and Sweden.

import { intl_dtf_resolve_fields, intl_validate_timezone } from '__wasm_rquickjs_builtin/intl_native';
import { resolveLocale, supportedLocalesOf } from 'internal:intl/locales';

const MONTHS = 'January February March April May June July August September October November December'.split(' ');
const DAYS = 'Sunday Monday Tuesday Wednesday Thursday Friday Saturday'.split(' ');
const FIELDS = ['weekday', 'era', 'year', 'month', 'day', 'dayPeriod', 'hour', 'minute', 'second', 'fractionalSecondDigits', 'timeZoneName'];
const DATE_STYLES = {
    full: { weekday: 'long', year: 'numeric', month: 'long', day: 'numeric' }, long: { year: 'numeric', month: 'long', day: 'numeric' },
    medium: { year: 'numeric', month: 'short', day: 'numeric' }, short: { year: '2-digit', month: 'numeric', day: 'numeric' },
};
const TIME_STYLES = {
    full: { hour: 'numeric', minute: '2-digit', second: '2-digit', timeZoneName: 'long' },
    long: { hour: 'numeric', minute: '2-digit', second: '2-digit', timeZoneName: 'short' },
    medium: { hour: 'numeric', minute: '2-digit', second: '2-digit' }, short: { hour: 'numeric', minute: '2-digit' },
};

const pad = (number, length = 2) => `${number}`.padStart(length, '0');
const literal = (value) => ({ type: 'literal', value });
const joined = (groups, separator) => groups.flatMap((group, index) => (index ? [literal(separator), group] : [group]));

function oneOf(options, name, values) {
    const value = options[name];
    if (value !== undefined && !values.includes(`${value}`)) throw new RangeError(`Value ${value} out of range for Intl.DateTimeFormat options property ${name}`);
    return value === undefined ? undefined : `${value}`;
}

export class DateTimeFormat {
    #locale;
    #order;
    #timeZone;
    #fields = {};
    #dateStyle;
    #timeStyle;
    #hourCycle;
    #format;

    constructor(locales, given = {}) {
        const options = Object(given ?? {});
        this.#locale = resolveLocale(locales);
        this.#order = ['en-CA', 'sv', 'sv-SE'].includes(this.#locale) ? 'iso' : ['en', 'en-US'].includes(this.#locale) || !this.#locale.startsWith('en-') ? 'us' : 'gb';
        this.#timeZone = DateTimeFormat.#zone(options.timeZone);
        this.#dateStyle = oneOf(options, 'dateStyle', Object.keys(DATE_STYLES));
        this.#timeStyle = oneOf(options, 'timeStyle', Object.keys(TIME_STYLES));
        const named = FIELDS.filter((name) => options[name] !== undefined);
        if (this.#dateStyle !== undefined || this.#timeStyle !== undefined) {
            if (named.length) throw new TypeError(`Can't set option ${named[0]} when ${this.#dateStyle ? 'dateStyle' : 'timeStyle'} is used`);
            Object.assign(this.#fields, DATE_STYLES[this.#dateStyle], TIME_STYLES[this.#timeStyle]);
        } else if (named.some((name) => name !== 'era' && name !== 'timeZoneName')) {
            for (const name of named) this.#fields[name] = options[name];
        } else {
            Object.assign(this.#fields, { year: 'numeric', month: 'numeric', day: 'numeric' });
            for (const name of named) this.#fields[name] = options[name];
        }
        this.#hourCycle = options.hour12 === undefined ? oneOf(options, 'hourCycle', ['h11', 'h12', 'h23', 'h24']) ?? (this.#order === 'us' || this.#locale === 'en-CA' ? 'h12' : 'h23')
            : options.hour12 ? 'h12' : 'h23';
        this.#format = (date) => this.formatToParts(date).map((part) => part.value).join('');
    }

    static #zone(zone) {
        const name = zone === undefined ? globalThis.process?.env.TZ || 'UTC' : `${zone}`;
        const offset = /^([+-])(\d\d):?(\d\d)?$/.exec(name);
        if (offset) return `${offset[1]}${offset[2]}:${offset[3] ?? '00'}`;
        if (/^(utc|gmt|etc\/utc|etc\/gmt)$/i.test(name)) return 'UTC';
        if (intl_validate_timezone(name)) return name;
        if (zone === undefined) return 'UTC';
        throw new RangeError(`Invalid time zone specified: ${zone}`);
    }

    get format() {
        return this.#format;
    }

    #resolve(date) {
        const time = date === undefined ? Date.now() : Number(date);
        if (!(Math.abs(time) <= 8.64e15)) throw new RangeError('Invalid time value');
        let shift = 0;
        let zone = this.#timeZone;
        if (/^[+-]/.test(zone)) {
            const [hours, minutes] = zone.slice(1).split(':').map(Number);
            shift = (hours * 60 + minutes) * (zone[0] === '-' ? -1 : 1);
            zone = 'UTC';
        }
        const [year, month, day, hour, minute, second, weekday, offset] = intl_dtf_resolve_fields(Math.floor(time) + shift * 60000, zone);
        return { year, month, day, hour, minute, second, weekday: weekday % 7, offset: offset + shift, milliseconds: ((Math.floor(time) % 1000) + 1000) % 1000 };
    }

    formatToParts(date) {
        const value = this.#resolve(date);
        const fields = this.#fields;
        const day = this.#date(value);
        const time = this.#time(value);
        if (!day.length || !time.length) return [...day, ...time];
        const long = this.#dateStyle ? ['full', 'long'].includes(this.#dateStyle) : fields.month === 'long';
        const separator = this.#order === 'iso' && !this.#locale.startsWith('en') ? ' ' : long ? ' at ' : ', ';
        return [...day, literal(separator), ...time];
    }

    #date({ year, month, day, weekday }) {
        const fields = this.#fields;
        const style = this.#order;
        const parts = [];
        const shownYear = year <= 0 && fields.era ? 1 - year : year;
        if (fields.year) parts.push({ type: 'year', value: fields.year === '2-digit' ? pad(Math.abs(shownYear) % 100) : `${shownYear}` });
        const numeric = fields.month === undefined || fields.month === 'numeric' || fields.month === '2-digit';
        // Numeric dates have two digits in the other orders.
        const two = style !== 'us' && numeric && fields.month && fields.day;
        if (fields.month) {
            const name = MONTHS[month - 1];
            const value = { numeric: two ? pad(month) : `${month}`, '2-digit': pad(month), long: name, short: style === 'gb' && month === 9 ? 'Sept' : name.slice(0, 3), narrow: name[0] }[fields.month];
            parts.push({ type: 'month', value });
        }
        if (fields.day) parts.push({ type: 'day', value: fields.day === '2-digit' || two ? pad(day) : `${day}` });
        const by = Object.fromEntries(parts.map((part) => [part.type, part]));
        const name = fields.weekday && { type: 'weekday', value: { long: DAYS[weekday], short: DAYS[weekday].slice(0, 3), narrow: DAYS[weekday][0] }[fields.weekday] };
        const order = { us: ['month', 'day', 'year'], gb: ['day', 'month', 'year'], iso: ['year', 'month', 'day'] }[numeric || style !== 'iso' ? style : 'us'];
        const present = order.map((type) => by[type]).filter(Boolean);
        let out;
        if (numeric) out = joined(present, style === 'iso' ? '-' : '/');
        else if (style === 'gb') out = joined(present, ' ');
        else {
            out = by.day ? [by.month, literal(' '), by.day] : [by.month];
            if (by.year) out.push(literal(by.day ? ', ' : ' '), by.year);
        }
        if (name && !out.length) out = [name];
        else if (name && !fields.month && !fields.year) out = [...out, literal(' '), name];
        else if (name) out = [name, literal(style === 'gb' && !numeric && fields.weekday === 'long' ? ' ' : ', '), ...out];
        if (fields.era && out.length) out.push(literal(' '), { type: 'era', value: { long: year > 0 ? 'Anno Domini' : 'Before Christ', short: year > 0 ? 'AD' : 'BC', narrow: year > 0 ? 'A' : 'B' }[fields.era] });
        return out;
    }

    #time({ hour, minute, second, offset, milliseconds }) {
        const fields = this.#fields;
        const cycle = this.#hourCycle;
        const out = [];
        if (fields.hour) {
            const shown = cycle === 'h12' ? hour % 12 || 12 : cycle === 'h11' ? hour % 12 : cycle === 'h24' ? hour || 24 : hour;
            out.push({ type: 'hour', value: fields.hour === '2-digit' || (cycle.startsWith('h2') && (fields.minute || this.#order !== 'us' || fields.hour === 'numeric')) ? pad(shown) : `${shown}` });
        }
        if (fields.minute) out.push({ type: 'minute', value: fields.minute === '2-digit' || fields.hour || fields.second ? pad(minute) : `${minute}` });
        if (fields.second) out.push({ type: 'second', value: fields.second === '2-digit' || fields.minute ? pad(second) : `${second}` });
        const parts = joined(out, ':');
        if (fields.fractionalSecondDigits) {
            const digits = pad(milliseconds, 3).slice(0, fields.fractionalSecondDigits);
            if (parts.length) parts.push(literal('.'));
            parts.push({ type: 'fractionalSecond', value: digits });
        }
        if (fields.hour && ['h11', 'h12'].includes(cycle)) {
            const period = hour < 12 ? 'AM' : 'PM';
            const lower = this.#order === 'us' ? period : this.#locale === 'en-CA' ? `${period[0].toLowerCase()}.m.` : period.toLowerCase();
            parts.push(literal(' '), { type: 'dayPeriod', value: lower });
        }
        if (fields.timeZoneName) parts.push(...(parts.length ? [literal(' ')] : [literal(', ')]), { type: 'timeZoneName', value: this.#zoneName(offset) });
        return parts;
    }

    #zoneName(offset) {
        if (this.#timeZone === 'UTC') return this.#fields.timeZoneName === 'long' ? 'Coordinated Universal Time' : 'UTC';
        const [hours, minutes] = [Math.floor(Math.abs(offset) / 60), Math.abs(offset) % 60];
        const sign = offset < 0 ? '-' : '+';
        if (offset === 0) return 'GMT';
        return this.#fields.timeZoneName.startsWith('long') ? `GMT${sign}${pad(hours)}:${pad(minutes)}` : `GMT${sign}${hours}${minutes ? `:${pad(minutes)}` : ''}`;
    }

    formatRange(start, end) {
        const [from, to] = [this.format(start), this.format(end)];
        return from === to ? from : `${from} – ${to}`;
    }

    resolvedOptions() {
        const hour = this.#fields.hour && { hourCycle: this.#hourCycle, hour12: this.#hourCycle === 'h12' || this.#hourCycle === 'h11' };
        const styled = this.#dateStyle || this.#timeStyle;
        return {
            locale: this.#locale, calendar: 'gregory', numberingSystem: 'latn', timeZone: this.#timeZone, ...hour, ...(styled ? {} : this.#fields),
            ...(this.#dateStyle && { dateStyle: this.#dateStyle }), ...(this.#timeStyle && { timeStyle: this.#timeStyle }),
        };
    }

    get [Symbol.toStringTag]() { return 'Intl.DateTimeFormat'; }
    static supportedLocalesOf(locales) { return supportedLocalesOf(locales); }
}
