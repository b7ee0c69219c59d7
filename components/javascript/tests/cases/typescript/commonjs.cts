import fs = require('fs'); const path: typeof import('path') = require('path'); const { sum } = require('./lib.ts') as { sum: (...n: number[]) => number }; console.log(typeof fs.readFileSync, path.sep, sum(1, 2), __filename.endsWith('.cts')); export = { done: true };
//// file: lib.ts
exports.sum = (...n: number[]): number => n.reduce((a, b) => a + b, 0);
