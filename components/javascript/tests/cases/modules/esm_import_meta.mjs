import { fileURLToPath } from 'node:url';
import { createRequire } from 'node:module';
console.log(import.meta.url.startsWith('file:///'), import.meta.filename === fileURLToPath(import.meta.url), import.meta.dirname, import.meta.resolve('./x.js').endsWith('/x.js'), import.meta.resolve('fs'));
console.log(fileURLToPath(new URL('./data.txt', import.meta.url)), import.meta.filename);
const require = createRequire(import.meta.url); console.log(require('./c.cjs'), require.resolve('./c.cjs'), Object.keys(import.meta).sort());
//// file: c.cjs
module.exports = 'from cjs';
