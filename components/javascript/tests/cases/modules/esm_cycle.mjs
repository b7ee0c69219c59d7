import { a, callB } from './a.mjs'; console.log(a, callB());
//// file: a.mjs
import { b, show } from './b.mjs'; export const a = 'a'; export function callB() { return b + show(); } export function hoisted() { return 'hoisted'; } console.log('a evaluated');
//// file: b.mjs
import { a, hoisted } from './a.mjs'; export const b = 'b'; console.log('b evaluates', hoisted()); try { console.log(a); } catch (e) { console.log(e.name, e.message); } export const show = () => a;
