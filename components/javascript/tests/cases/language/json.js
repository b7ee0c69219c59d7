console.log(JSON.stringify({ a: [1, { b: 2 }], u: undefined, f() {}, d: new Date(0), n: NaN, s: 'é"\n\u2028', nested: { toJSON: () => 'custom' } }));
console.log(JSON.stringify({ a: [1, 2], o: {} }, null, 2));
console.log(JSON.stringify({ a: 1, b: 2, c: { a: 3 } }, ['a', 'c']), JSON.stringify({ a: 1 }, (k, v) => (typeof v === 'number' ? v + 1 : v), '--'));
console.log(JSON.parse('{"__proto__": 1, "a": [1e3, -0, "\\u00e9"]}'), JSON.parse('[1,2]', (k, v) => (Array.isArray(v) ? v : v * 2)));
for (const bad of ['{', '{"a":1,}', '', 'nul', '[1,2', '{"a" 1}', "{'a': 1}", '\u0000', '"\n"']) {
  try { JSON.parse(bad); } catch (e) { console.log(JSON.stringify(bad), e.name); }
}
const loop = {}; loop.self = loop;
try { JSON.stringify(loop); } catch (e) { console.log(e.name, e.message.split('\n')[0]); }
try { JSON.stringify(1n); } catch (e) { console.log(e.name, e.message); }
console.log(JSON.stringify('\ud800'), JSON.stringify([undefined, Symbol(), () => 1]), JSON.stringify(undefined));
