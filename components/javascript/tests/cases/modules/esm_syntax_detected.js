import { basename } from 'node:path';
console.log(basename('/a/b'), typeof require, await Promise.resolve('tla'));
