const lib = await import('./lib.mjs'); console.log(lib.default, lib);
console.log((await import('node:path')).basename('/a/b.c'), (await import('./c.cjs')).default);
try { await import('./missing.mjs'); } catch (e) { console.log(e.code, e.message.replace(import.meta.dirname, 'DIR').split('\n')[0]); }
try { await import('./throws.mjs'); } catch (e) { console.log(e.message); }
try { await import('./broken.mjs'); } catch (e) { console.log(e.name); }
try { await import('nothing-here'); } catch (e) { console.log(e.code, e.message); }
try { await import('./dir'); } catch (e) { console.log(e.code); }
try { await import('./lib'); } catch (e) { console.log(e.code); }
const [a, b] = await Promise.all([import('./lib.mjs'), import('./lib.mjs')]); console.log(a === b, (await import('./lib.mjs?x=1')) === a);
console.log((await import('data:text/javascript,export default 42')).default);
//// file: lib.mjs
console.log('evaluated'); export default 'lib';
//// file: c.cjs
module.exports = { cjs: true };
//// file: throws.mjs
throw new Error('at evaluation');
//// file: broken.mjs
export const = 1;
//// file: dir/index.js
module.exports = 1;
