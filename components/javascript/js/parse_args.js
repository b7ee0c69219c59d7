// util.parseArgs.

import { ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE } from '__wasm_rquickjs_builtin/internal/errors';

function coded(code, message) {
    return Object.assign(new TypeError(message), { code });
}

// How an option is shown in messages.
function shown(long, { short, type }) {
    return `${short ? `-${short}, ` : ''}--${long}${type === 'string' ? ' <value>' : ''}`;
}

function checkOptions(options) {
    for (const [name, option] of Object.entries(options)) {
        if (option === null || typeof option !== 'object') throw new ERR_INVALID_ARG_TYPE(`options.${name}`, 'Object', option);
        const { type, short, multiple } = option;
        if (type !== 'string' && type !== 'boolean') {
            throw Object.assign(new TypeError(`The property 'options.${name}.type' must be one of: 'string', 'boolean'. Received ${
                type === undefined ? 'undefined' : `'${type}'`}`), { code: 'ERR_INVALID_ARG_TYPE' });
        }
        if (short !== undefined) {
            if (typeof short !== 'string') throw new ERR_INVALID_ARG_TYPE(`options.${name}.short`, 'string', short);
            if (short.length !== 1) throw new ERR_INVALID_ARG_VALUE(`options.${name}.short`, short, 'must be a single character');
        }
        if (multiple !== undefined && typeof multiple !== 'boolean') throw new ERR_INVALID_ARG_TYPE(`options.${name}.multiple`, 'boolean', multiple);
        if (option.default === undefined) continue;
        const property = `options.${name}.default`;
        if (multiple && !Array.isArray(option.default)) throw new ERR_INVALID_ARG_TYPE(property, 'Array', option.default);
        const values = multiple ? option.default : [option.default];
        values.forEach((value, index) => {
            if (typeof value !== type) throw new ERR_INVALID_ARG_TYPE(multiple ? `${property}[${index}]` : property, type, value);
        });
    }
}

// Splits arguments into options, positionals and the terminator.
function tokenize(args, options) {
    const tokens = [], left = [...args];
    const longOf = (short) => Object.keys(options).find((name) => options[name].short === short) ?? short;
    let index = -1, groups = 0;
    while (left.length > 0) {
        const arg = left.shift();
        const next = left[0];
        if (groups > 0) groups -= 1;
        else index += 1;
        if (arg === '--') {
            tokens.push({ kind: 'option-terminator', index });
            for (const value of left) tokens.push({ kind: 'positional', index: ++index, value });
            break;
        }
        if (/^-[^-]$/.test(arg)) {
            const name = longOf(arg[1]);
            let value, inlineValue;
            if (options[name]?.type === 'string' && next !== undefined) {
                value = left.shift();
                inlineValue = false;
            }
            tokens.push({ kind: 'option', name, rawName: arg, index, value, inlineValue });
            if (value !== undefined) index += 1;
        } else if (/^-[^-]./.test(arg)) {
            const first = longOf(arg[1]);
            if (options[first]?.type === 'string') {
                tokens.push({ kind: 'option', name: first, rawName: `-${arg[1]}`, index, value: arg.slice(2), inlineValue: true });
                continue;
            }
            // A group of options: the last may take a value.
            const expanded = [];
            for (let at = 1; at < arg.length; at++) {
                if (options[longOf(arg[at])]?.type !== 'string' || at === arg.length - 1) expanded.push(`-${arg[at]}`);
                else {
                    expanded.push(`-${arg.slice(at)}`);
                    break;
                }
            }
            left.unshift(...expanded);
            groups = expanded.length;
        } else if (/^--[^=]+=/.test(arg)) {
            const at = arg.indexOf('=');
            tokens.push({ kind: 'option', name: arg.slice(2, at), rawName: arg.slice(0, at), index, value: arg.slice(at + 1), inlineValue: true });
        } else if (/^--./.test(arg)) {
            const name = arg.slice(2);
            let value, inlineValue;
            if (options[name]?.type === 'string' && next !== undefined) {
                value = left.shift();
                inlineValue = false;
            }
            tokens.push({ kind: 'option', name, rawName: arg, index, value, inlineValue });
            if (value !== undefined) index += 1;
        } else {
            tokens.push({ kind: 'positional', index, value: arg });
        }
    }
    return tokens;
}

function checkUse(token, { options, allowPositionals, allowNegative }) {
    const { name, rawName, value, inlineValue } = token;
    const option = Object.hasOwn(options, name) ? options[name] : undefined;
    if (option === undefined) {
        if (allowNegative && name.startsWith('no-') && options[name.slice(3)]?.type === 'boolean') return;
        const hint = allowPositionals ? `. To specify a positional argument starting with a '-', place it at the end of the command after '--', as in '-- "${rawName}"` : '';
        throw coded('ERR_PARSE_ARGS_UNKNOWN_OPTION', `Unknown option '${rawName}'${hint}`);
    }
    if (option.type === 'string' && typeof value !== 'string') {
        throw coded('ERR_PARSE_ARGS_INVALID_OPTION_VALUE', `Option '${shown(name, option)}' argument missing`);
    }
    if (option.type === 'boolean' && value !== undefined && value !== null) {
        throw coded('ERR_PARSE_ARGS_INVALID_OPTION_VALUE', `Option '${shown(name, option)}' does not take an argument`);
    }
    if (option.type === 'string' && inlineValue === false && value.startsWith('-') && value.length > 1) {
        const example = rawName.startsWith('--') ? `'${rawName}=-XYZ'` : `'--${name}=-XYZ' or '${rawName}-XYZ'`;
        throw coded('ERR_PARSE_ARGS_INVALID_OPTION_VALUE', `Option '${rawName}' argument is ambiguous.\nDid you forget to specify the option argument for '${
            rawName}'?\nTo specify an option argument starting with a dash use ${example}.`);
    }
}

export function parseArgs(config = {}) {
    if (config === null || typeof config !== 'object') throw new ERR_INVALID_ARG_TYPE('config', 'Object', config);
    const { process } = globalThis;
    const evaluates = process.execArgv.some((arg) => ['-e', '--eval', '-p', '--print'].includes(arg));
    const args = config.args ?? process.argv.slice(evaluates ? 1 : 2);
    if (!Array.isArray(args)) throw new ERR_INVALID_ARG_TYPE('args', 'Array', args);
    const options = config.options ?? {};
    const strict = config.strict ?? true, allowPositionals = config.allowPositionals ?? !strict, allowNegative = config.allowNegative ?? false;
    checkOptions(options);
    const tokens = tokenize(args, options);
    const result = { values: Object.create(null), positionals: [] };
    const store = (name, value) => {
        if (name === '__proto__') return;
        if (options[name]?.multiple) (result.values[name] ??= []).push(value);
        else result.values[name] = value;
    };
    for (const token of tokens) {
        if (token.kind === 'option') {
            if (strict) checkUse(token, { options, allowPositionals, allowNegative });
            const { name, value } = token;
            if (allowNegative && name.startsWith('no-') && value === undefined && !Object.hasOwn(options, name)) store(name.slice(3), false);
            else store(name, value ?? true);
        } else if (token.kind === 'positional') {
            if (!allowPositionals) {
                throw coded('ERR_PARSE_ARGS_UNEXPECTED_POSITIONAL', `Unexpected argument '${token.value}'. This command does not take positional arguments`);
            }
            result.positionals.push(token.value);
        }
    }
    for (const [name, option] of Object.entries(options)) {
        if (name !== '__proto__' && option.default !== undefined && !Object.hasOwn(result.values, name)) result.values[name] = option.default;
    }
    if (config.tokens) result.tokens = tokens;
    return result;
}
