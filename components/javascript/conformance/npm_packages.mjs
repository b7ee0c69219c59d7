// Exercises of the most downloaded packages of npm, in the order of their downloads. Each section is a module of its own, whose output in the
// sandbox must be that of Node.js 22. Read by npm_packages.py.
//// semver
import semver, { satisfies, inc } from 'semver';
console.log(satisfies('1.2.3', '^1.0.0 || >=3'), inc('1.2.3', 'minor'), semver.sort(['2.0.0', '1.0.0-b', '1.0.0']), semver.minVersion('~1.4').version);
//// ansi-styles
import styles from 'ansi-styles';
console.log(JSON.stringify([styles.red.open, styles.bold.close, styles.color.ansi256(200), styles.hexToAnsi256('#C0FFEE')]));
//// debug
import debug from 'debug';
debug.enable('app:*,-app:no');
debug.log = (...args) => console.log(args.length, debug.enabled('app:x'), debug.enabled('app:no'), debug.enabled('other'));
debug('app:x')('value %o', { a: 1 });
//// minimatch
import { minimatch, Minimatch } from 'minimatch';
console.log(minimatch('src/a/b.js', 'src/**/*.{js,ts}'), minimatch('.x', '*'), new Minimatch('!a*').match('b'), minimatch.filter('*.md')('x.md'));
//// strip-ansi
import stripAnsi from 'strip-ansi';
console.log(stripAnsi('\u001B[4mUni\u001B[0mcorn \u001B]8;;x\u0007link\u001B]8;;\u0007'));
//// chalk
import chalk, { Chalk } from 'chalk';
const colours = new Chalk({ level: 3 });
console.log(JSON.stringify([colours.red.bold('x'), colours.hex('#123456')('y'), colours.bgBlue`z` ?? null, chalk.level]));
//// supports-color
import supportsColor, { createSupportsColor } from 'supports-color';
console.log(supportsColor.stdout, createSupportsColor({ isTTY: true }, { sniffFlags: false }));
//// string-width
import stringWidth from 'string-width';
console.log(['a', '古', '\u001B[1m古\u001B[22m', '👩‍👩‍👦', 'é', ''].map((text) => stringWidth(text)));
//// ansi-regex
import ansiRegex from 'ansi-regex';
console.log('\u001B[4mcake\u001B[0m'.match(ansiRegex()).length, ansiRegex({ onlyFirst: true }).test('x'), String(ansiRegex()).length > 20);
//// ms
import ms from 'ms';
console.log(ms('2 days'), ms('1.5h'), ms(60000), ms(2 * 60000, { long: true }), ms('x'));
//// lru-cache
import { LRUCache } from 'lru-cache';
const cache = new LRUCache({ max: 2, ttl: 1e6, dispose: (value, key) => console.log('gone', key, value) });
cache.set('a', 1); cache.set('b', 2); cache.get('a'); cache.set('c', 3);
console.log([...cache.entries()], cache.has('b'), await new LRUCache({ max: 5, fetchMethod: async (key) => key + key }).fetch('x'));
//// brace-expansion
import * as braces from 'brace-expansion';
const expand = braces.expand ?? braces.default;
console.log(expand('a{b,c{d,e}}f'), expand('{01..10..3}'), expand('${a}{b,c}'));
//// tslib
import { __assign, __awaiter, __decorate, __rest, __spreadArray } from 'tslib';
console.log(__assign({ a: 1 }, { b: 2 }), __rest({ a: 1, b: 2 }, ['a']), __spreadArray([1], [2, 3], true), typeof __decorate);
console.log(await __awaiter(undefined, [], undefined, function* () { return (yield Promise.resolve(2)) + 1; }));
//// emoji-regex
import emojiRegex from 'emoji-regex';
console.log([...'a⌚️b👩🏿c🇩🇪'.matchAll(emojiRegex())].map((match) => [match.index, match[0].length]));
//// wrap-ansi
import wrapAnsi from 'wrap-ansi';
console.log(JSON.stringify([wrapAnsi('The quick \u001B[31mbrown fox\u001B[39m jumped', 10), wrapAnsi('aaaaaaaa', 3, { hard: true }), wrapAnsi(' x', 5, { trim: false })]));
//// commander
import { Command } from 'commander';
const program = new Command('tool').exitOverride().version('1.0.0').description('A tool').argument('<file>').option('-n, --number <n>', 'a number', Number, 3).option('--no-colour');
program.command('sub').description('does').action(() => console.log('sub'));
program.action((file, options) => console.log(file, options));
program.parse(['x.txt', '-n', '5', '--no-colour'], { from: 'user' });
console.log(program.helpInformation());
//// glob
import { globSync, glob, hasMagic } from 'glob';
import { mkdirSync, writeFileSync } from 'node:fs';
mkdirSync('globbed/a/b', { recursive: true });
for (const name of ['x.js', 'a/y.js', 'a/b/z.js', 'a/b/w.txt', '.hidden.js']) writeFileSync(`globbed/${name}`, '');
console.log(globSync('globbed/**/*.js').sort(), (await glob(['**/*'], { cwd: 'globbed', nodir: true, dot: true })).sort(), hasMagic('a*'));
//// color-name
import colors from 'color-name';
console.log(colors.rebeccapurple, Object.keys(colors).length);
//// color-convert
import convert from 'color-convert';
console.log(convert.rgb.hsl(140, 200, 100), convert.hex.rgb('AABBCC'), convert.keyword.lab('blue'), convert.rgb.hsl.raw(140, 200, 100));
//// source-map
import { SourceMapGenerator } from 'source-map';
const generator = new SourceMapGenerator({ file: 'out.js' });
generator.addMapping({ generated: { line: 10, column: 35 }, source: 'a.js', original: { line: 33, column: 2 }, name: 'x' });
generator.setSourceContent('a.js', 'text');
console.log(generator.toString());
//// has-flag
import hasFlag from 'has-flag';
console.log(hasFlag('unicorn', ['--unicorn', '--', '--x']), hasFlag('x', ['--', '--x']), hasFlag('-f', ['-f']));
//// readable-stream
import { Readable, Transform, pipeline, Writable } from 'readable-stream';
const seen = [];
pipeline(Readable.from(['a', 'b', 'c']), new Transform({ objectMode: true, transform(chunk, _, done) { done(null, String(chunk).toUpperCase()); } }),
    new Writable({ objectMode: true, write(chunk, _, done) { seen.push(String(chunk)); done(); } }), (error) => console.log(error, seen));
//// picomatch
import picomatch from 'picomatch';
console.log(picomatch('**/*.js')('a/b.js'), picomatch.isMatch('a.md', ['*.js', '*.md']), picomatch.makeRe('a/{b,c}/*').source, picomatch.scan('!./foo/*.js').glob);
//// ajv
import { Ajv } from 'ajv';
const ajv = new Ajv({ allErrors: true });
const validate = ajv.compile({ type: 'object', properties: { n: { type: 'integer', minimum: 1 }, tags: { type: 'array', items: { enum: ['a', 'b'] }, uniqueItems: true } }, required: ['n'], additionalProperties: false });
for (const value of [{ n: 1, tags: ['a'] }, { n: 0, tags: ['c', 'c'], x: 1 }, {}]) console.log(validate(value), ajv.errorsText(validate.errors));
//// safe-buffer
import { Buffer as SafeBuffer } from 'safe-buffer';
console.log(SafeBuffer.from('añ').toString('hex'), SafeBuffer.alloc(3, 1), SafeBuffer.isBuffer(SafeBuffer.allocUnsafe(1)));
//// escape-string-regexp
import escapeStringRegexp from 'escape-string-regexp';
console.log(escapeStringRegexp('How much $ for a 🦄-[x]?'), new RegExp(escapeStringRegexp('a.b*')).test('a.b*'));
//// uuid
import { v4, v5, v3, v1, v7, validate, version, parse, stringify, NIL } from 'uuid';
console.log(v5('x', v5.DNS), v3('x', v3.URL), [v1(), v4(), v7()].map((id) => [validate(id), version(id)]), stringify(parse(NIL)));
//// yallist
import * as lists from 'yallist';
const Yallist = lists.Yallist ?? lists.default;
const list = new Yallist([1, 2, 3]);
list.push(4); list.unshift(0); list.shift();
console.log(list.toArray(), list.map((value) => value * 2).toArray(), list.reverse().head.value, list.length);
//// signal-exit
import { onExit, signals } from 'signal-exit';
onExit((code, signal) => console.log('exit', code, signal));
console.log(signals.includes('SIGTERM'));
process.exitCode = 0;
//// react-is
import * as reactIs from 'react-is';
console.log(reactIs.isElement({ $$typeof: Symbol.for('react.transitional.element') }), reactIs.isFragment({}), reactIs.isValidElementType('div'), String(reactIs.Memo));
//// is-fullwidth-code-point
import isFullwidthCodePoint from 'is-fullwidth-code-point';
console.log(isFullwidthCodePoint('谢'.codePointAt(0)), isFullwidthCodePoint('a'.codePointAt(0)));
//// which
import * as finders from 'which';
const which = finders.which ?? finders.default;
console.log((await which('node')).endsWith('/node'), await which('no-such-program', { nothrow: true }));
await which('no-such-program').catch((error) => console.log(error.code, error.message));
//// p-limit
import pLimit from 'p-limit';
const limit = pLimit(2);
let active = 0, most = 0;
console.log(await Promise.all([5, 1, 3, 2].map((n) => limit(async () => { most = Math.max(most, ++active); await new Promise((done) => setTimeout(done, n)); active--; return n; }))), most);
//// json-schema-traverse
import traverse from 'json-schema-traverse';
traverse({ properties: { a: { items: { type: 'string' } } }, allOf: [{ minimum: 1 }] }, { cb: (schema, pointer) => console.log(pointer, Object.keys(schema)) });
//// find-up
import { findUp, findUpSync } from 'find-up';
import path from 'node:path';
console.log(path.basename(await findUp('package.json')), path.basename(findUpSync(['no-such', 'node_modules'], { type: 'directory' })), await findUp('no-such-file'));
//// locate-path
import { locatePath, locatePathSync } from 'locate-path';
console.log(await locatePath(['no-such', 'package.json', 'node_modules']), locatePathSync(['no-such']), locatePathSync(['node_modules'], { type: 'directory' }));
//// p-locate
import pLocate from 'p-locate';
console.log(await pLocate([1, 2, 3], async (value) => value > 1), await pLocate([1], () => false));
//// mime-db
import db from 'mime-db';
console.log(db['application/json'].extensions, db['image/svg+xml'].compressible, Object.keys(db).length > 2000);
//// eslint-visitor-keys
import { KEYS, getKeys, unionWith } from 'eslint-visitor-keys';
console.log(KEYS.CallExpression, getKeys({ type: 'X', left: 1, loc: 2 }), unionWith({ CallExpression: ['x'] }).CallExpression);
//// minipass
import { Minipass } from 'minipass';
const stream = new Minipass({ encoding: 'utf8' });
stream.write('a'); stream.end('b');
console.log(await stream.concat(), await new Minipass({ objectMode: true }).end({ a: 1 }).collect());
//// glob-parent
import globParent from 'glob-parent';
console.log(globParent('path/to/*.js'), globParent('/root/{a,b}/c'), globParent('a/b.js'));
//// iconv-lite
import iconv from 'iconv-lite';
console.log(iconv.encode('Ünïcödé €', 'win1252'), iconv.decode(Buffer.from('93fa967b', 'hex'), 'Shift_JIS'), iconv.encode('a', 'utf16'), iconv.encodingExists('gbk'));
//// string_decoder
import { StringDecoder } from 'string_decoder/lib/string_decoder.js';
const decoder = new StringDecoder('utf8');
console.log([decoder.write(Buffer.from([0xe2, 0x82])), decoder.write(Buffer.from([0xac])), decoder.end(Buffer.from([0xe2]))]);
//// js-yaml
import * as yaml from 'js-yaml';
const { load, dump, YAMLException } = yaml.default ?? yaml;
console.log(load('a: [1, 2]\nb: &x {c: d}\ne: *x\nf: |\n  text\n  more\n'), dump({ a: [1, { b: 'x: y' }], d: null, n: 1.5 }));
try { load('a: ['); } catch (error) { console.log(error instanceof YAMLException, error.reason); }
//// isarray
import isArray from 'isarray';
console.log(isArray([]), isArray({ length: 0 }));
//// mime-types
import mime from 'mime-types';
console.log(mime.lookup('x.html'), mime.contentType('text/markdown'), mime.extension('application/vnd.ms-excel'), mime.charset('text/css'), mime.lookup('none'));
//// @babel/types
import * as t from '@babel/types';
const node = t.callExpression(t.memberExpression(t.identifier('a'), t.identifier('b')), [t.numericLiteral(1)]);
console.log(t.isCallExpression(node), t.isIdentifier(node.callee.object, { name: 'a' }), JSON.stringify(t.cloneNode(node)).length, t.toIdentifier('a-b c'));
try { t.identifier(1); } catch (error) { console.log(error.name); }
//// @babel/code-frame
import { codeFrameColumns } from '@babel/code-frame';
console.log(codeFrameColumns('class Foo {\n  constructor() {\n    x(\n  }\n}', { start: { line: 3, column: 5 }, end: { line: 3, column: 7 } }, { message: 'here', highlightCode: false }));
//// globals
import globals from 'globals';
console.log(globals.node.process, globals.browser.window, 'require' in globals.commonjs, Object.keys(globals).length > 20);
//// path-key
import pathKey from 'path-key';
console.log(pathKey(), pathKey({ env: { Path: '1' }, platform: 'win32' }));
//// yargs-parser
import parser from 'yargs-parser';
console.log(parser('--foo=99.3 -abc --no-x --list 1 2 rest -- tail', { array: ['list'], boolean: ['a'], number: ['list'] }), parser(['--a.b', 'c', '--camel-case']));
//// ws
import WebSocket, { WebSocketServer, Receiver, Sender } from 'ws';
console.log(WebSocket.OPEN, typeof WebSocketServer, typeof Receiver, Sender.frame(Buffer.from('hi'), { fin: true, opcode: 1, mask: false, rsv1: false, readOnly: false }));
const receiver = new Receiver();
receiver.on('message', (data, binary) => console.log(String(data), binary));
receiver.write(Buffer.from([0x81, 0x02, 0x68, 0x69]));
//// resolve
import resolve from 'resolve';
import { fileURLToPath } from 'node:url';
import path from 'node:path';
const here = path.dirname(fileURLToPath(import.meta.url));
console.log(path.relative(here, resolve.sync('ms', { basedir: here })), resolve.isCore('fs'));
resolve('no-such-package', { basedir: here }, (error) => console.log(error.code));
//// get-stream
import getStream, { getStreamAsBuffer, getStreamAsArray, MaxBufferError } from 'get-stream';
import { Readable } from 'node:stream';
console.log(await getStream(Readable.from(['a', 'b'])), await getStreamAsBuffer(Readable.from([Buffer.from('c')])), await getStreamAsArray(Readable.from([1, 2])));
await getStream(Readable.from(['abc']), { maxBuffer: 2 }).catch((error) => console.log(error instanceof MaxBufferError));
//// argparse
import * as argparse from 'argparse';
const { ArgumentParser } = argparse.default ?? argparse;
const arguments_ = new ArgumentParser({ description: 'An example', prog: 'tool', add_help: true });
arguments_.add_argument('-f', '--foo', { help: 'foo bar', type: 'int', default: 5 });
arguments_.add_argument('names', { nargs: '*' });
console.log(arguments_.parse_args(['-f', '7', 'a', 'b']), arguments_.format_usage());
//// @babel/parser
import { parse, parseExpression } from '@babel/parser';
const ast = parse('const a: number = <T,>(x?: T) => x ?? 1n; class A { #p = 1; static { } }', { sourceType: 'module', plugins: ['typescript'] });
console.log(ast.program.body.map((node) => [node.type, node.loc.end.column]), parseExpression('a?.b[1]').type);
try { parse('let a = ('); } catch (error) { console.log(error.name, error.code, error.loc.line, error.loc.column); }
//// yargs
import yargs from 'yargs';
const parsed = yargs(['build', 'x', '--count', '3', '-v']).scriptName('tool').command('build <name>', 'Builds', (y) => y.option('count', { type: 'number', default: 1 }), (argv) => console.log('building', argv.name, argv.count)).alias('v', 'verbose').boolean('v').help().exitProcess(false);
const argv = await parsed.parse();
console.log(argv._, argv.verbose, await parsed.getHelp());
//// pretty-format
import { format, plugins } from 'pretty-format';
console.log(format({ a: [1, 'x', null], map: new Map([['k', new Set([1])]]), date: new Date(0), f() {}, s: Symbol('s'), e: new Error('m') }), Object.keys(plugins).sort());
//// ignore
import ignore from 'ignore';
const ignored = (ignore.default ?? ignore)().add(['*.log', '!keep.log', 'build/', '/root']);
console.log(ignored.filter(['a.log', 'keep.log', 'build/x', 'src/root', 'root']), ignored.ignores('x/build/y'), ignored.test('b.log'));
//// acorn
import { parse, tokenizer, parseExpressionAt } from 'acorn';
const tree = parse('export async function* f({ a = 1, ...b }) { for await (const x of y) yield x ** 2; }', { ecmaVersion: 'latest', sourceType: 'module' });
console.log(JSON.stringify(tree).length, [...tokenizer('a ??= /x/v', { ecmaVersion: 'latest' })].map((token) => token.type.label), parseExpressionAt('1 + 2', 0, { ecmaVersion: 2020 }).operator);
try { parse('let let = 1', { ecmaVersion: 2020 }); } catch (error) { console.log(error.message); }
//// isexe
import { isexe, sync } from 'isexe';
import { writeFileSync } from 'node:fs';
writeFileSync('plain.txt', '');
console.log(sync('plain.txt'), await isexe('plain.txt'), await isexe('no-such-file', { ignoreErrors: true }));
//// cross-spawn
import spawn from 'cross-spawn';
const { stdout, status } = spawn.sync('node', ['-p', '1 + 1']);
console.log(String(stdout), status, spawn.sync('no-such-program').error.code);
spawn('node', ['-e', 'console.log(process.argv.length)', 'a b'], { stdio: 'inherit' }).on('exit', (code) => console.log(code));
//// postcss
import postcss from 'postcss';
const plugin = { postcssPlugin: 'upper', Declaration(decl) { if (decl.prop === 'color') decl.value = decl.value.toUpperCase(); } };
const result = await postcss([plugin]).process('a { color: red; & b { margin: 0 } }\n@media print { a { color: #fff } }', { from: 'a.css', map: { inline: false } });
console.log(result.css, result.map.toString().length > 20, postcss.parse('a{b:c}').first.selector);
try { postcss.parse('a {'); } catch (error) { console.log(error.name, error.reason, error.line); }
//// balanced-match
import * as balance from 'balanced-match';
const balanced = balance.balanced ?? balance.default;
console.log(balanced('{', '}', 'pre{in{nest}}post'), balanced('{', '}', 'none'));
//// resolve-from
import resolveFrom from 'resolve-from';
console.log(resolveFrom('.', 'ms').split('/').slice(-2), resolveFrom.silent('.', 'no-such-package'));
//// fs-extra
import fs from 'fs-extra';
await fs.outputFile('extra/a/b.txt', 'text');
await fs.outputJson('extra/x.json', { a: 1 }, { spaces: 2 });
await fs.copy('extra/a', 'extra/c');
await fs.move('extra/c/b.txt', 'extra/d.txt');
await fs.ensureDir('extra/e');
console.log(await fs.readJson('extra/x.json'), await fs.pathExists('extra/d.txt'), fs.readdirSync('extra').sort(), fs.emptyDirSync('extra') ?? fs.readdirSync('extra'));
await fs.remove('extra');
console.log(fs.existsSync('extra'));
//// camelcase
import camelCase from 'camelcase';
console.log(camelCase('foo-bar_baz qux'), camelCase('Foo-Bar', { pascalCase: true }), camelCase(['a', 'b-c']), camelCase('fooBAR', { preserveConsecutiveUppercase: true }));
//// cliui
import cliui from 'cliui';
const ui = cliui({ width: 40 });
ui.div('Usage: tool [command]', { text: 'right', align: 'right' });
ui.div({ text: 'a long description that wraps', width: 20, padding: [0, 2, 0, 2] }, { text: 'x', border: true, width: 10 });
console.log(ui.toString());
//// @jridgewell/trace-mapping
import { TraceMap, originalPositionFor, generatedPositionFor, eachMapping } from '@jridgewell/trace-mapping';
const map = new TraceMap({ version: 3, sources: ['input.js'], names: ['foo'], mappings: 'KAyCIA' });
console.log(originalPositionFor(map, { line: 1, column: 5 }), generatedPositionFor(map, { source: 'input.js', line: 42, column: 4 }));
eachMapping(map, (mapping) => console.log(mapping.name));
//// punycode
import punycode from 'punycode/punycode.js';
console.log(punycode.toASCII('mañana.com'), punycode.toUnicode('xn--maana-pta.com'), punycode.encode('München-Ost'), punycode.ucs2.decode('a💩'));
//// @babel/helper-validator-identifier
import { isIdentifierName, isKeyword, isReservedWord } from '@babel/helper-validator-identifier';
console.log(isIdentifierName('añ1'), isIdentifierName('1a'), isKeyword('if'), isReservedWord('await', true));
//// @babel/generator
import * as generators from '@babel/generator';
import { parse } from '@babel/parser';
const generate = generators.generate ?? generators.default.default ?? generators.default;
console.log(generate(parse('const   a = (1,2), {b} = c; if(a)b();else{ c?.() }')).code, generate(parse('var a = 1 // x'), { compact: true, comments: false }).code);
//// is-stream
import { isStream, isReadableStream, isWritableStream, isDuplexStream } from 'is-stream';
import { Readable, PassThrough } from 'node:stream';
console.log(isStream(Readable.from([])), isWritableStream(Readable.from([])), isDuplexStream(new PassThrough()), isReadableStream({}));
//// entities
import { decodeHTML, encodeHTML, escapeText, decodeXML, encodeXML } from 'entities';
console.log(decodeHTML('&lt;&Auml;&#x1F600;&notin&amp'), encodeHTML('<ä∉>'), escapeText('a<b&c'), decodeXML('&quot;&nbsp;'), encodeXML('ü"'));
//// agent-base
import { Agent } from 'agent-base';
import http from 'node:http';
class Own extends Agent { async connect() { throw Object.assign(new Error('no connection'), { code: 'EOWN' }); } }
const agent = new Own();
console.log(agent instanceof http.Agent, agent.protocol, typeof agent.createSocket);
//// estraverse
import estraverse from 'estraverse';
const ast = { type: 'Program', body: [{ type: 'ExpressionStatement', expression: { type: 'BinaryExpression', operator: '+', left: { type: 'Literal', value: 1 }, right: { type: 'Identifier', name: 'x' } } }] };
estraverse.traverse(ast, { enter: (node, parent) => console.log('in', node.type, parent?.type), leave: (node) => node.type === 'Literal' && console.log('out') });
console.log(JSON.stringify(estraverse.replace(ast, { leave: (node) => node.type === 'Identifier' ? { type: 'Literal', value: 2 } : undefined })));
//// strip-json-comments
import stripJsonComments from 'strip-json-comments';
console.log(JSON.parse(stripJsonComments('{ // x\n "a": "/* no */", /* y */ "b": [1, 2,], }', { trailingCommas: true })), JSON.stringify(stripJsonComments('a//b\n', { whitespace: false })));
//// shebang-regex
import shebangRegex from 'shebang-regex';
console.log(shebangRegex.test('#!/usr/bin/env node\nx'), shebangRegex.exec('#!/bin/sh -e')?.[1], shebangRegex.test(' #!x'));
//// shebang-command
import shebangCommand from 'shebang-command';
console.log(shebangCommand('#!/usr/bin/env node -x\n'), shebangCommand('#!/bin/bash'), shebangCommand('x'));
//// json5
import JSON5 from 'json5';
console.log(JSON5.parse("{ a: 'x', b: +.5, c: 0xF, d: [1, 2,], // y\n e: Infinity, 'f': \"\\\n\" }"), JSON5.stringify({ a: 1, 'b-c': ['x'] }, null, 2));
try { JSON5.parse('{'); } catch (error) { console.log(error.name, error.message); }
//// @babel/traverse
import * as traversal from '@babel/traverse';
import { parse } from '@babel/parser';
const traverse = traversal.traverse ?? traversal.default.default ?? traversal.default;
const names = [];
traverse(parse('let a = 1; function f(b) { return a + b; }'), { Identifier(path) { names.push([path.node.name, path.key, path.isReferencedIdentifier()]); }, Scope(path) { names.push(Object.keys(path.scope.bindings)); } });
console.log(names);
//// webidl-conversions
import conversions from 'webidl-conversions';
console.log(conversions.octet(257), conversions.double('1.5'), conversions.DOMString(null), conversions.USVString('a\ud800'), conversions['unsigned long'](-1));
try { conversions.octet(300, { enforceRange: true, context: 'X' }); } catch (error) { console.log(error.message); }
//// path-exists
import { pathExists, pathExistsSync } from 'path-exists';
console.log(await pathExists('package.json'), pathExistsSync('no-such'));
//// path-to-regexp
import { match, compile, pathToRegexp, parse } from 'path-to-regexp';
console.log(match('/users/:id{/:tab}')('/users/5/x'), compile('/a/:b')({ b: 'c d' }), pathToRegexp('/*rest').regexp.source, parse('/a/:b').tokens);
//// whatwg-url
import whatwg from 'whatwg-url';
const { URL: Url, URLSearchParams: Parameters, parseURL, serializeURL } = whatwg;
console.log(new Url('../x?y=1#z', 'https://user:pw@EXAMPLE.com:8080/a/b').href, [...new Parameters('a=1&b=%20')], serializeURL(parseURL('http://[::1]/%zz')), new Url('http://ünï.de').host);
//// https-proxy-agent
import { HttpsProxyAgent } from 'https-proxy-agent';
const agent = new HttpsProxyAgent('http://127.0.0.1:1');
console.log(agent.proxy.href, agent.connectOpts.port);
await agent.connect(new (await import('node:events')).EventEmitter(), { host: 'example.com', port: 443, secureEndpoint: true }).catch((error) => console.log(error instanceof Error));
//// onetime
import onetime from 'onetime';
let count = 0;
const once = onetime(() => ++count);
console.log(once(), once(), onetime.callCount(once));
//// @babel/core
import * as babel from '@babel/core';
const { transformSync, parseSync } = babel.transformSync ? babel : babel.default;
const visitor = { NumericLiteral(path) { path.node.value *= 2; delete path.node.extra; } };
console.log(transformSync('const a = 1 + 2; // kept', { plugins: [() => ({ visitor })], configFile: false, babelrc: false, sourceMaps: true }).code);
console.log(parseSync('a', { configFile: false, babelrc: false }).type);
//// form-data
import FormData from 'form-data';
const form = new FormData();
form.setBoundary?.('boundary');
form.append('a', '1');
form.append('file', Buffer.from('data'), { filename: 'x.txt', contentType: 'text/plain' });
console.log(form.getBuffer().toString(), form.getHeaders(), form.getLengthSync());
//// tr46
import tr46 from 'tr46';
console.log(tr46.toASCII('faß.de'), tr46.toASCII('ÄÖ.example', { transitionalProcessing: false }), tr46.toUnicode('xn--fa-hia.de'));
//// @babel/template
import * as templates from '@babel/template';
import * as generators from '@babel/generator';
import * as t from '@babel/types';
const template = templates.default?.default ?? templates.default ?? templates.template;
const generate = generators.generate ?? generators.default.default ?? generators.default;
console.log(generate(template('const NAME = require(SOURCE);')({ NAME: t.identifier('x'), SOURCE: t.stringLiteral('y') })).code, template.expression.ast`a + ${t.numericLiteral(1)}`.type);
//// execa
import { execa, execaSync, $ } from 'execa';
console.log((await execa('node', ['-p', '6 * 7'])).stdout, execaSync({ input: 'text' })`cat`.stdout, (await $`echo ${'a b'}`).stdout);
await execa('node', ['-e', 'console.error("bad"); process.exit(3)']).catch((error) => console.log(error.exitCode, error.stderr, error.shortMessage));
await execa('no-such-program').catch((error) => console.log(error.code));
//// eslint-scope
import { analyze } from 'eslint-scope';
import { parse } from 'acorn';
const manager = analyze(parse('const a = 1; function f(b) { return a + b + c; }', { ecmaVersion: 2022, ranges: true }), { ecmaVersion: 2022 });
console.log(manager.scopes.map((scope) => [scope.type, scope.variables.map(({ name }) => name), scope.through.map(({ identifier }) => identifier.name)]));
//// inherits
import inherits from 'inherits';
function Parent() {}
Parent.prototype.hi = () => 'hi';
function Child() {}
inherits(Child, Parent);
console.log(new Child().hi(), Child.super_ === Parent);
//// convert-source-map
import convert from 'convert-source-map';
const converter = convert.fromObject({ version: 3, sources: ['a.js'], mappings: '' });
console.log(converter.toComment(), convert.fromComment(converter.toComment()).toObject(), convert.removeComments(`x\n${converter.toComment()}`));
//// rimraf
import { rimraf, rimrafSync } from 'rimraf';
import fs from 'node:fs';
fs.mkdirSync('removed/a/b', { recursive: true });
fs.writeFileSync('removed/a/b/c.txt', '');
console.log(await rimraf('removed'), fs.existsSync('removed'), rimrafSync('no-such'));
//// negotiator
import Negotiator from 'negotiator';
const negotiator = new Negotiator({ headers: { accept: 'text/html;q=0.8, application/json', 'accept-language': 'de;q=0.5, en', 'accept-encoding': 'gzip, br;q=0.1' } });
console.log(negotiator.mediaTypes(), negotiator.mediaType(['text/html']), negotiator.languages(), negotiator.encodings(), negotiator.charset());
//// qs
import qs from 'qs';
console.log(qs.parse('a[b][c]=d&e[]=1&e[]=2&f.g=h', { allowDots: true }), qs.stringify({ a: [1, { b: 'ü' }], c: null, d: new Date(0) }), qs.stringify({ a: [1, 2] }, { arrayFormat: 'brackets', encode: false }));
//// get-intrinsic
import getIntrinsic from 'get-intrinsic';
console.log(getIntrinsic('%Math.pow%')(2, 3), getIntrinsic('%Array.prototype.push%') === [].push, typeof getIntrinsic('%AsyncGeneratorFunction%'));
try { getIntrinsic('%None%'); } catch (error) { console.log(error.name); }
//// @babel/helper-module-imports
import { addNamed, addDefault, isModule } from '@babel/helper-module-imports';
import * as babel from '@babel/core';
const { transformSync } = babel.transformSync ? babel : babel.default;
const visitor = { Program(path) { console.log(isModule(path)); addNamed(path, 'named', 'source'); addDefault(path, 'other', { nameHint: 'hint' }); } };
console.log(transformSync('export {};', { plugins: [() => ({ visitor })], configFile: false, babelrc: false }).code);
