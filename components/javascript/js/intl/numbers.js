// Intl.NumberFormat, over the decimal digits that the number has as a text: so are 1.005 and 2.25 rounded as people expect.

import { CURRENCIES, resolveLocale, supportedLocalesOf, table } from 'internal:intl/locales';

const SYMBOLS = {
    USD: '$', EUR: '€', GBP: '£', JPY: '¥', CNY: 'CN¥', KRW: '₩', INR: '₹', BRL: 'R$', ILS: '₪', VND: '₫', CAD: 'CA$', AUD: 'A$', NZD: 'NZ$',
    MXN: 'MX$', HKD: 'HK$', TWD: 'NT$', PHP: '₱', XAF: 'FCFA', XOF: 'F CFA', XCD: 'EC$', XPF: 'CFPF',
};
const NARROW = { ...SYMBOLS, CNY: '¥', CAD: '$', AUD: '$', NZD: '$', MXN: '$', HKD: '$', TWD: '$', SGD: '$', SEK: 'kr', NOK: 'kr', DKK: 'kr', RUB: '₽', TRY: '₺', UAH: '₴', PLN: 'zł', CZK: 'Kč', HUF: 'Ft', ARS: '$', CLP: '$', COP: '$', NGN: '₦', THB: '฿', ZAR: 'R' };
const WITHOUT_CENTS = new Set('BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF'.split(' '));
const WITH_MILLS = new Set('BHD IQD JOD KWD LYD OMR TND'.split(' '));
// The unit: its short form, and the forms of one and of others.
const UNITS = {
    bit: ['bit', 'bit', 'bits'], byte: ['byte', 'byte', 'bytes'], kilobyte: ['kB', 'kilobyte', 'kilobytes'], megabyte: ['MB', 'megabyte', 'megabytes'],
    gigabyte: ['GB', 'gigabyte', 'gigabytes'], terabyte: ['TB', 'terabyte', 'terabytes'], petabyte: ['PB', 'petabyte', 'petabytes'],
    kilometer: ['km', 'kilometer', 'kilometers'], meter: ['m', 'meter', 'meters'], centimeter: ['cm', 'centimeter', 'centimeters'],
    millimeter: ['mm', 'millimeter', 'millimeters'], mile: ['mi', 'mile', 'miles'], yard: ['yd', 'yard', 'yards'], foot: ['ft', 'foot', 'feet'],
    inch: ['in', 'inch', 'inches'], kilogram: ['kg', 'kilogram', 'kilograms'], gram: ['g', 'gram', 'grams'], pound: ['lb', 'pound', 'pounds'],
    ounce: ['oz', 'ounce', 'ounces'], stone: ['st', 'stone', 'stones'], liter: ['L', 'liter', 'liters'], milliliter: ['mL', 'milliliter', 'milliliters'],
    gallon: ['gal', 'gallon', 'gallons'], celsius: ['°C', 'degree Celsius', 'degrees Celsius'], fahrenheit: ['°F', 'degree Fahrenheit', 'degrees Fahrenheit'],
    percent: ['%', 'percent', 'percent'], degree: ['deg', 'degree', 'degrees'], nanosecond: ['ns', 'nanosecond', 'nanoseconds'], microsecond: ['μs', 'microsecond', 'microseconds'], millisecond: ['ms', 'millisecond', 'milliseconds'],
    second: ['sec', 'second', 'seconds'], minute: ['min', 'minute', 'minutes'], hour: ['hr', 'hour', 'hours'], day: ['day', 'day', 'days'],
    week: ['wk', 'week', 'weeks'], month: ['mth', 'month', 'months'], year: ['yr', 'year', 'years'], acre: ['ac', 'acre', 'acres'], hectare: ['ha', 'hectare', 'hectares'],
    'kilometer-per-hour': ['km/h', 'kilometer per hour', 'kilometers per hour'], 'mile-per-hour': ['mph', 'mile per hour', 'miles per hour'],
    'meter-per-second': ['m/s', 'meter per second', 'meters per second'],
};
// Short units that have a plural, and those without a space before them.
const SHORT_PLURALS = new Set(['day', 'week', 'month', 'year']);
const TIGHT = new Set(['celsius', 'fahrenheit', 'percent']);
const COMPACT = [[12, 'T', 'trillion'], [9, 'B', 'billion'], [6, 'M', 'million'], [3, 'K', 'thousand']];

// A number of decimal digits: 0.d1d2d3... times ten to the power of `point`.
function decimal(text) {
    const [, whole, fraction = '', exponent = '0'] = /^(\d*)\.?(\d*)(?:e([+-]?\d+))?$/i.exec(text);
    const all = whole + fraction;
    const digits = all.replace(/^0+/, '');
    return { digits, point: whole.length + Number(exponent) - (all.length - digits.length) };
}

// Rounds half away from zero, so that `keep` digits are left.
function round({ digits, point }, keep) {
    if (keep >= digits.length) return { digits, point };
    if (keep < 0) return { digits: '', point };
    const kept = digits.slice(0, keep);
    if (digits[keep] < '5') return { digits: kept, point };
    const next = (BigInt(kept || '0') + 1n).toString();
    return { digits: next, point: point + next.length - kept.length };
}

function inRange(options, name, low, high, fallback) {
    const value = options[name];
    if (value === undefined) return fallback;
    const number = Number(value);
    if (!(number >= low && number <= high)) throw new RangeError(`${name} value is out of range.`);
    return Math.floor(number);
}

function oneOf(options, name, values, fallback) {
    const value = options[name];
    if (value === undefined) return fallback;
    if (!values.includes(`${value}`)) throw new RangeError(`Value ${value} out of range for Intl.NumberFormat options property ${name}`);
    return `${value}`;
}

export class NumberFormat {
    #options;
    #locale;
    #format;

    constructor(locales, given = {}) {
        this.#locale = resolveLocale(locales);
        const options = Object(given ?? {});
        const style = oneOf(options, 'style', ['decimal', 'percent', 'currency', 'unit'], 'decimal');
        const notation = oneOf(options, 'notation', ['standard', 'scientific', 'engineering', 'compact'], 'standard');
        const currency = options.currency?.toString().toUpperCase();
        if (currency !== undefined && !/^[A-Z]{3}$/.test(currency)) throw new RangeError(`Invalid currency code : ${options.currency}`);
        if (style === 'currency' && currency === undefined) throw new TypeError('Currency code is required with currency style.');
        if (style === 'unit' && options.unit === undefined) throw new TypeError('Required unit with unit style.');
        if (options.unit !== undefined && !Object.hasOwn(UNITS, options.unit)) throw new RangeError(`Invalid unit argument for Intl.NumberFormat() '${options.unit}'`);
        const cents = style !== 'currency' || notation !== 'standard' ? 0 : WITHOUT_CENTS.has(currency) ? 0 : WITH_MILLS.has(currency) ? 3 : 2;
        const most = style === 'currency' ? cents : style === 'percent' ? 0 : notation === 'compact' ? 0 : 3;
        let minimumFractionDigits = inRange(options, 'minimumFractionDigits', 0, 100, undefined);
        let maximumFractionDigits = inRange(options, 'maximumFractionDigits', 0, 100, undefined);
        const explicit = minimumFractionDigits !== undefined || maximumFractionDigits !== undefined;
        if (minimumFractionDigits === undefined) minimumFractionDigits = Math.min(cents, maximumFractionDigits ?? cents);
        if (maximumFractionDigits === undefined) maximumFractionDigits = Math.max(most, minimumFractionDigits);
        if (maximumFractionDigits < minimumFractionDigits) throw new RangeError('maximumFractionDigits value is out of range.');
        const significant = options.minimumSignificantDigits !== undefined || options.maximumSignificantDigits !== undefined;
        const minimumSignificantDigits = inRange(options, 'minimumSignificantDigits', 1, 21, 1);
        this.#options = {
            style, notation, currency, cents,
            currencyDisplay: oneOf(options, 'currencyDisplay', ['code', 'symbol', 'narrowSymbol', 'name'], 'symbol'),
            currencySign: oneOf(options, 'currencySign', ['standard', 'accounting'], 'standard'),
            unit: options.unit,
            unitDisplay: oneOf(options, 'unitDisplay', ['short', 'narrow', 'long'], 'short'),
            compactDisplay: oneOf(options, 'compactDisplay', ['short', 'long'], 'short'),
            signDisplay: oneOf(options, 'signDisplay', ['auto', 'never', 'always', 'exceptZero', 'negative'], 'auto'),
            useGrouping: options.useGrouping ?? (notation === 'compact' ? 'min2' : 'auto'),
            minimumIntegerDigits: inRange(options, 'minimumIntegerDigits', 1, 21, 1),
            minimumFractionDigits, maximumFractionDigits, explicit, significant, minimumSignificantDigits,
            maximumSignificantDigits: inRange(options, 'maximumSignificantDigits', minimumSignificantDigits, 21, 21),
        };
        this.#format = (value) => this.formatToParts(value).map((part) => part.value).join('');
    }

    get format() {
        return this.#format;
    }

    formatToParts(value) {
        const options = this.#options;
        const number = typeof value === 'bigint' ? value : typeof value === 'string' && /^\s*[+-]?\d+(\.\d+)?\s*$/.test(value) ? value.trim() : Number(value);
        const text = Object.is(number, -0) ? '-0' : `${number}`;
        const negative = text.startsWith('-');
        const absolute = text.replace(/^[+-]/, '');
        let parts;
        let isZero = false;
        if (absolute === 'NaN') parts = [{ type: 'nan', value: 'NaN' }];
        else if (absolute === 'Infinity') parts = [{ type: 'infinity', value: '∞' }];
        else {
            const shown = this.#number(decimal(absolute));
            isZero = shown.isZero;
            ({ parts } = shown);
        }
        return this.#withSign(this.#withUnit(parts), negative && absolute !== 'NaN', isZero || absolute === 'NaN');
    }

    #number(value) {
        const options = this.#options;
        let { digits, point } = value;
        if (options.style === 'percent') point += 2;
        let suffix = [];
        if (options.notation === 'compact') {
            // Rounding can reach the next power: 999,999 is 1M.
            const rounded = digits ? this.#round({ digits, point: (point - 1) % 3 + 1 }, true) : value;
            const size = digits && point > 3 ? point + Math.max(0, rounded.point - ((point - 1) % 3 + 1)) : point;
            const found = COMPACT.find(([power]) => size > power);
            if (found) {
                point -= found[0];
                suffix = options.compactDisplay === 'long' ? [{ type: 'literal', value: ' ' }, { type: 'compact', value: found[2] }] : [{ type: 'compact', value: found[1] }];
            }
        } else if (options.notation !== 'standard' && digits) {
            const power = options.notation === 'engineering' ? Math.floor((point - 1) / 3) * 3 : point - 1;
            point -= power;
            suffix = [{ type: 'exponentSeparator', value: 'E' }, ...(power < 0 ? [{ type: 'exponentMinusSign', value: '-' }] : []), { type: 'exponentInteger', value: `${Math.abs(power)}` }];
        } else if (options.notation !== 'standard') {
            suffix = [{ type: 'exponentSeparator', value: 'E' }, { type: 'exponentInteger', value: '0' }];
        }
        const rounded = this.#round({ digits, point }, options.notation === 'compact');
        const padded = rounded.point > 0 ? rounded.digits.padEnd(rounded.point, '0') : '0'.repeat(-rounded.point) + rounded.digits;
        const split = Math.max(rounded.point, 0);
        const whole = (padded.slice(0, split) || '0').padStart(options.minimumIntegerDigits, '0');
        let least = options.minimumFractionDigits;
        if (options.significant) least = Math.max(0, options.minimumSignificantDigits - Math.max(rounded.point, 0));
        const fraction = (rounded.digits ? padded.slice(split).replace(/0+$/, '') : '').padEnd(least, '0');
        const parts = this.#grouped(whole);
        if (fraction) parts.push({ type: 'decimal', value: '.' }, { type: 'fraction', value: fraction });
        return { parts: [...parts, ...suffix], isZero: !/[1-9]/.test(rounded.digits) };
    }

    #round(value, isCompact) {
        const { significant, explicit, maximumSignificantDigits, maximumFractionDigits } = this.#options;
        if (significant) return round(value, maximumSignificantDigits);
        // Without options, compact numbers have two digits, and no fraction after two digits.
        if (isCompact && !explicit) return round(value, Math.max(2, value.point));
        return round(value, value.point + maximumFractionDigits);
    }

    #grouped(whole) {
        const { useGrouping } = this.#options;
        const least = useGrouping === 'min2' ? 5 : 4;
        if (useGrouping === false || useGrouping === 'false' || whole.length < least) return [{ type: 'integer', value: whole }];
        const groups = whole.replace(/\B(?=(\d{3})+$)/g, ',').split(',');
        return groups.flatMap((value, index) => (index ? [{ type: 'group', value: ',' }, { type: 'integer', value }] : [{ type: 'integer', value }]));
    }

    #withUnit(parts) {
        const { style, currency, currencyDisplay, unit, unitDisplay } = this.#options;
        if (style === 'percent') return [...parts, { type: 'percentSign', value: '%' }];
        const isOne = parts.map((part) => part.value).join('') === '1';
        if (style === 'unit') {
            const [short, one, other] = UNITS[unit];
            const long = isOne ? one : other;
            const shown = unitDisplay === 'long' ? long : !isOne && SHORT_PLURALS.has(unit) && unitDisplay === 'short' ? `${short}s` : unit === 'byte' && unitDisplay === 'narrow' ? 'B' : short;
            const space = unitDisplay === 'long' || (unitDisplay === 'short' && !TIGHT.has(unit)) ? [{ type: 'literal', value: ' ' }] : [];
            return [...parts, ...space, { type: 'unit', value: shown }];
        }
        if (style !== 'currency') return parts;
        if (currencyDisplay === 'name') {
            const name = table(CURRENCIES).get(currency) ?? currency;
            const lower = name.replace(/ (\w+)$/, (last) => last.toLowerCase());
            const plural = /(yen|yuan|won|baht|rand|dong|leu|lev)$/i.test(lower) ? lower : currency === 'EUR' ? 'euros' : `${lower}s`;
            return [...parts, { type: 'literal', value: ' ' }, { type: 'currency', value: isOne ? lower : plural }];
        }
        const symbol = currencyDisplay === 'code' ? currency : (currencyDisplay === 'narrowSymbol' ? NARROW : SYMBOLS)[currency] ?? currency;
        const space = /[A-Za-z]$/.test(symbol) ? [{ type: 'literal', value: '\u00a0' }] : [];
        return [{ type: 'currency', value: symbol }, ...space, ...parts];
    }

    #withSign(parts, negative, isZero) {
        const { signDisplay, style, currencySign } = this.#options;
        const minus = negative && signDisplay !== 'never' && !(isZero && (signDisplay === 'exceptZero' || signDisplay === 'negative'));
        if (minus && style === 'currency' && currencySign === 'accounting') {
            return [{ type: 'literal', value: '(' }, ...parts, { type: 'literal', value: ')' }];
        }
        if (minus) return [{ type: 'minusSign', value: '-' }, ...parts];
        const plus = signDisplay === 'always' || (signDisplay === 'exceptZero' && !isZero);
        return plus && !negative ? [{ type: 'plusSign', value: '+' }, ...parts] : parts;
    }

    formatRange(start, end) {
        const [from, to] = [this.format(start), this.format(end)];
        return from === to ? `~${from}` : `${from}–${to}`;
    }

    resolvedOptions() {
        const { style, currency, currencyDisplay, currencySign, unit, unitDisplay, notation, compactDisplay, signDisplay, useGrouping, ...digits } = this.#options;
        return {
            locale: this.#locale, numberingSystem: 'latn', style,
            ...(style === 'currency' && { currency, currencyDisplay, currencySign }), ...(style === 'unit' && { unit, unitDisplay }),
            minimumIntegerDigits: digits.minimumIntegerDigits,
            ...(digits.significant ? { minimumSignificantDigits: digits.minimumSignificantDigits, maximumSignificantDigits: digits.maximumSignificantDigits }
                : { minimumFractionDigits: digits.minimumFractionDigits, maximumFractionDigits: digits.maximumFractionDigits }),
            useGrouping, notation, ...(notation === 'compact' && { compactDisplay }), signDisplay, roundingIncrement: 1, roundingMode: 'halfExpand',
            roundingPriority: 'auto', trailingZeroDisplay: 'auto',
        };
    }

    get [Symbol.toStringTag]() { return 'Intl.NumberFormat'; }
    static supportedLocalesOf(locales) { return supportedLocalesOf(locales); }
}
