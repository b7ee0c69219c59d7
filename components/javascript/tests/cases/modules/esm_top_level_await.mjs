import { value } from './slow.mjs'; console.log('main sees', value); const x = await new Promise((resolve) => setTimeout(resolve, 5, 'timer')); console.log(x); for await (const n of (async function* () { yield 1; yield 2; })()) console.log(n); export {};
//// file: slow.mjs
console.log('slow starts'); await new Promise((resolve) => setTimeout(resolve, 5)); export const value = 'ready'; console.log('slow ends');
