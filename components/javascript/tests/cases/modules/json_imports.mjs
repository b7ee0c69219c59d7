import data from './d.json' with { type: 'json' }; console.log(data);
const dyn = await import('./d.json', { with: { type: 'json' } }); console.log(dyn.default === data, Object.keys(dyn));
try { await import('./d.json'); } catch (e) { console.log(e.code); }
try { await import('./bad.json', { with: { type: 'json' } }); } catch (e) { console.log(e.name); }
try { await import('./d.json', { with: { type: 'css' } }); } catch (e) { console.log(e.code, e.name); }
//// file: d.json
{ "a": [1, { "b": null }] }
//// file: bad.json
{ bad }
