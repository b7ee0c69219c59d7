#!/usr/bin/env node
'use strict';
// `npm`, and under its own name `pnpm`, `yarn` and `bun`, in a sandbox: nothing is installed.
const { list, missing, wanted } = require('../lib/packages.js');
const { manifest } = require('../lib/manifest.js');
const { run, scripts } = require('../lib/scripts.js');

const [first = '', ...rest] = process.argv.slice(2);
const tool = first.startsWith('--as=') ? first.slice('--as='.length) : 'npm';
const [command = '', ...args] = first.startsWith('--as=') ? rest : process.argv.slice(2);

/** The options whose value is the next word. */
const WITH_VALUE = ['--prefix', '-C', '--registry', '--omit', '--loglevel', '-w', '--workspace', '--cwd', '--dir'];

const USAGE = `usage: ${tool} install | ci | ls | run | test | start
This is the ${tool} of a sandbox: it installs nothing, and reports whether packages are available.`;

function fail(message) {
  for (const line of message.split('\n')) {
    console.error(`${tool} error ${line}`);
  }
  process.exitCode = 1;
}

function names(words) {
  const found = [];
  for (let at = 0; at < words.length; at += 1) {
    if (WITH_VALUE.includes(words[at])) {
      at += 1;
    } else if (!words[at].startsWith('-')) {
      found.push(words[at]);
    }
  }
  return found;
}

function install(words) {
  const named = names(words);
  const isGlobal = words.includes('-g') || words.includes('--global');
  if (named.length === 0 && !isGlobal && manifest() === null) {
    return fail(`no package.json in ${process.cwd()} or a folder above it`);
  }
  const needs = named.length > 0 ? named.map(wanted) : Object.entries(manifest()?.content.dependencies ?? {});
  const lacks = missing(needs);
  if (lacks.length > 0) {
    const lines = lacks.map(({ name, range, found }) =>
      found === null
        ? `${name} is not in node_modules or the package set of the sandbox`
        : `${name}: the sandbox has ${found}, but ${range} is required`,
    );
    return fail(`${lines.join('\n')}\nnothing can be installed in a sandbox; ask for --site-packages DIR`);
  }
  console.log(`\nup to date: the sandbox has ${needs.length === 1 ? 'the package' : `all ${needs.length} packages`}`);
}

function show() {
  const found = list();
  console.log(`${process.cwd()}\n${found.map(({ name, version }) => `├── ${name}@${version}`).join('\n')}`);
}

switch (command) {
  case '':
    if (tool === 'yarn') {
      install(args);
    } else {
      console.log(USAGE);
      process.exitCode = 1;
    }
    break;
  case 'install':
  case 'i':
  case 'add':
  case 'a':
  case 'ci':
  case 'clean-install':
  case 'install-clean':
    install(args);
    break;
  case 'ls':
  case 'list':
    show();
    break;
  case 'run':
  case 'run-script':
    process.exitCode = run(tool, args[0], args.slice(1));
    break;
  case 'test':
  case 't':
  case 'start':
    process.exitCode = run(tool, command === 't' ? 'test' : command, args);
    break;
  case '-v':
  case '--version':
    console.log(require('../package.json').version);
    break;
  case 'help':
  case '--help':
  case '-h':
    console.log(USAGE);
    break;
  default:
    if (tool !== 'npm' && scripts(manifest())[command] !== undefined) {
      process.exitCode = run(tool, command, args);
    } else {
      fail(`${tool} ${command} is not available in a sandbox`);
    }
}
