// Locales, and names of languages, regions and currencies.

const LANGUAGES = 'ar Arabic,bg Bulgarian,cs Czech,da Danish,de German,el Greek,en English,es Spanish,et Estonian,fa Persian,fi Finnish,fr French,he Hebrew,hi Hindi,hr Croatian,hu Hungarian,id Indonesian,it Italian,ja Japanese,ko Korean,lt Lithuanian,lv Latvian,nb Norwegian Bokmål,nl Dutch,pl Polish,pt Portuguese,ro Romanian,ru Russian,sk Slovak,sl Slovenian,sr Serbian,sv Swedish,th Thai,tr Turkish,uk Ukrainian,vi Vietnamese,zh Chinese';
const REGIONS = 'AR Argentina,AT Austria,AU Australia,BE Belgium,BG Bulgaria,BR Brazil,CA Canada,CH Switzerland,CL Chile,CN China,CO Colombia,CZ Czechia,DE Germany,DK Denmark,EE Estonia,EG Egypt,ES Spain,FI Finland,FR France,GB United Kingdom,GR Greece,HK Hong Kong SAR China,HR Croatia,HU Hungary,ID Indonesia,IE Ireland,IL Israel,IN India,IR Iran,IS Iceland,IT Italy,JP Japan,KE Kenya,KR South Korea,LT Lithuania,LU Luxembourg,LV Latvia,MX Mexico,MY Malaysia,NG Nigeria,NL Netherlands,NO Norway,NZ New Zealand,PE Peru,PH Philippines,PK Pakistan,PL Poland,PT Portugal,RO Romania,RS Serbia,RU Russia,SA Saudi Arabia,SE Sweden,SG Singapore,SI Slovenia,SK Slovakia,TH Thailand,TR Türkiye,TW Taiwan,UA Ukraine,US United States,VN Vietnam,ZA South Africa';
export const CURRENCIES = 'AED United Arab Emirates Dirham,ARS Argentine Peso,AUD Australian Dollar,BGN Bulgarian Lev,BRL Brazilian Real,CAD Canadian Dollar,CHF Swiss Franc,CLP Chilean Peso,CNY Chinese Yuan,COP Colombian Peso,CZK Czech Koruna,DKK Danish Krone,EGP Egyptian Pound,EUR Euro,GBP British Pound,HKD Hong Kong Dollar,HUF Hungarian Forint,IDR Indonesian Rupiah,ILS Israeli New Shekel,INR Indian Rupee,ISK Icelandic Króna,JPY Japanese Yen,KES Kenyan Shilling,KRW South Korean Won,MXN Mexican Peso,MYR Malaysian Ringgit,NGN Nigerian Naira,NOK Norwegian Krone,NZD New Zealand Dollar,PEN Peruvian Sol,PHP Philippine Peso,PKR Pakistani Rupee,PLN Polish Zloty,RON Romanian Leu,RUB Russian Ruble,SAR Saudi Riyal,SEK Swedish Krona,SGD Singapore Dollar,THB Thai Baht,TRY Turkish Lira,TWD New Taiwan Dollar,UAH Ukrainian Hryvnia,USD US Dollar,VND Vietnamese Dong,ZAR South African Rand';

export function table(text) {
    return new Map(text.split(',').map((line) => [line.slice(0, line.indexOf(' ')), line.slice(line.indexOf(' ') + 1)]));
}

// Returns the tag in its canonical case.
function canonical(tag) {
    if (typeof tag !== 'string' && !(tag instanceof Locale)) throw new TypeError('Language ID should be string or object.');
    const parts = `${tag}`.split('-');
    if (!/^([a-z]{2,3}|[a-z]{5,8})$/i.test(parts[0]) || parts.some((part) => !/^[a-z0-9]{1,8}$/i.test(part))) {
        throw new RangeError(`Incorrect locale information provided`);
    }
    let extension = false;
    return parts.map((part, index) => {
        const lower = part.toLowerCase();
        if (index && part.length === 1) extension = true;
        if (!index || extension) return lower;
        if (part.length === 4) return lower[0].toUpperCase() + lower.slice(1);
        return part.length === 2 ? part.toUpperCase() : lower;
    }).join('-');
}

export function canonicalLocales(locales) {
    if (locales === undefined) return [];
    if (locales === null) throw new TypeError('Cannot convert undefined or null to object');
    const list = typeof locales === 'string' || locales instanceof Locale ? [locales] : [...locales];
    return [...new Set(list.map(canonical))];
}

// Returns the locale that formats: English, with the regions whose dates differ; else that of the United States.
export function resolveLocale(locales) {
    for (const tag of canonicalLocales(locales)) {
        const base = tag.split('-u-')[0];
        if (['en-GB', 'en-AU', 'en-NZ', 'en-IE', 'en-IN', 'en-CA', 'sv-SE', 'sv'].includes(base)) return base;
        if (base === 'en') return 'en';
        if (base.startsWith('en-')) return base;
    }
    return 'en-US';
}

export function supportedLocalesOf(locales) {
    return canonicalLocales(locales).filter((tag) => tag === 'en' || tag.startsWith('en-'));
}

export function supportedValues(key) {
    switch (`${key}`) {
        case 'calendar': return ['gregory'];
        case 'collation': return ['emoji', 'eor'];
        case 'currency': return currencyCodes();
        case 'numberingSystem': return ['latn'];
        case 'timeZone': return ['UTC'];
        case 'unit': return ['bit', 'byte', 'celsius', 'centimeter', 'day', 'degree', 'fahrenheit', 'foot', 'gigabyte', 'gram', 'hour', 'inch', 'kilobyte', 'kilogram', 'kilometer', 'liter', 'megabyte', 'meter', 'mile', 'milliliter', 'millisecond', 'minute', 'month', 'ounce', 'percent', 'pound', 'second', 'terabyte', 'week', 'yard', 'year'];
        default: throw new RangeError(`Invalid key : ${key}`);
    }
}

// The codes that are in use, whether or not their names are known.
function currencyCodes() {
    return 'AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VES VND VUV WST XAF XCD XOF XPF YER ZAR ZMW ZWL'.split(' ');
}

export class Locale {
    #tag;
    #options;

    constructor(tag, options = {}) {
        this.#tag = canonical(tag);
        this.#options = options;
    }

    get baseName() { return this.#tag.split('-u-')[0]; }
    get language() { return this.#options.language ?? this.#tag.split('-')[0]; }
    get region() { return this.#options.region ?? this.baseName.split('-').slice(1).find((part) => /^([A-Z]{2}|\d{3})$/.test(part)); }
    get script() { return this.#options.script ?? this.baseName.split('-').find((part) => /^[A-Z][a-z]{3}$/.test(part)); }
    get calendar() { return this.#options.calendar; }
    get numberingSystem() { return this.#options.numberingSystem; }
    get hourCycle() { return this.#options.hourCycle; }
    get caseFirst() { return this.#options.caseFirst; }
    get collation() { return this.#options.collation; }
    get numeric() { return this.#options.numeric ?? false; }
    maximize() { return this; }
    minimize() { return this; }
    toString() { return this.#tag; }
    get [Symbol.toStringTag]() { return 'Intl.Locale'; }
}

export class DisplayNames {
    #type;
    #fallback;

    constructor(locales, options) {
        if (options === undefined) throw new TypeError('Cannot convert undefined or null to object');
        canonicalLocales(locales);
        if (!['language', 'region', 'script', 'currency', 'calendar', 'dateTimeField'].includes(options.type)) {
            throw options.type === undefined ? new TypeError('Required option "type" must not be undefined')
                : new RangeError(`Value ${options.type} out of range for Intl.DisplayNames options property type`);
        }
        this.#type = options.type;
        this.#fallback = options.fallback ?? 'code';
    }

    of(code) {
        const key = `${code}`;
        const tables = { language: LANGUAGES, region: REGIONS, currency: CURRENCIES };
        const names = tables[this.#type] ? table(tables[this.#type]) : new Map();
        const found = names.get(this.#type === 'language' ? key.split('-')[0].toLowerCase() : key.toUpperCase());
        if (found !== undefined && this.#type === 'language' && key.includes('-')) {
            const region = new DisplayNames('en', { type: 'region' }).of(key.split('-').at(-1));
            return key === 'en-US' ? 'American English' : key === 'en-GB' ? 'British English' : `${found} (${region})`;
        }
        return found ?? (this.#fallback === 'code' ? key : undefined);
    }

    resolvedOptions() {
        return { locale: 'en-US', style: 'long', type: this.#type, fallback: this.#fallback };
    }

    get [Symbol.toStringTag]() { return 'Intl.DisplayNames'; }
    static supportedLocalesOf(locales) { return supportedLocalesOf(locales); }
}
