import { helper, type Options } from './helper.ts'; import type { Other } from './helper.ts'; import def from './data.json' with { type: 'json' }; import { c } from './c.cts'; export type { Options }; export const value: Options = { a: 1 };
console.log(helper(value), def, c, import.meta.filename.endsWith('.mts'), await import('./late.ts').then((m) => m.default));
//// file: helper.ts
export interface Options { a: number } export type Other = string; export function helper(o: Options): string { return JSON.stringify(o); }
//// file: c.cts
const c: number = 3; module.exports = { c };
//// file: late.ts
export default 'late' as string;
//// file: data.json
{ "d": 1 }
