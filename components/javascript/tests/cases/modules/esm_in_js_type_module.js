import { x } from './other.js'; import data from './data.json' with { type: 'json' }; console.log(x, data, typeof require, import.meta.filename.endsWith('.js'));
//// file: package.json
{ "type": "module" }
//// file: other.js
export const x = 'esm by type';
//// file: data.json
{ "json": true }
