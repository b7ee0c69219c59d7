#!/usr/bin/env node
'use strict';
// `npx` in a sandbox: runs the program of a package that is there.
const { pathToFileURL } = require('node:url');

const { program, wanted } = require('../lib/packages.js');

const [word, ...args] = process.argv.slice(2);
const [name] = wanted(word);
const file = program(name);
if (file === null) {
  console.error(`npx error ${name} is not a program of a package in node_modules or the package set of the sandbox`);
  console.error('npx error nothing can be installed in a sandbox; ask for --site-packages DIR');
  process.exitCode = 1;
} else {
  process.argv = [process.argv[0], file, ...args];
  import(pathToFileURL(file).href);
}
