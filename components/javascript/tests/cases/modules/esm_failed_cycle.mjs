for (const name of ['a', 'b', 'c', 'b', 'a', 'd']) {
  try { console.log(name, { ...await import(`./${name}.mjs`) }); } catch (e) { console.log(name, e.code); }
}
//// file: a.mjs
import './b.mjs'; import './missing.mjs'; export const a = 'a';
//// file: b.mjs
import { a } from './a.mjs'; export const b = 'b';
//// file: c.mjs
import { b } from './b.mjs'; export const c = b;
//// file: d.mjs
export const d = 'd';
