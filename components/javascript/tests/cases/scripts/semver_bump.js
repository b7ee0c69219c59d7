// argv: minor --preid beta
const fs = require('fs');
const parse = (v) => { const m = /^v?(\d+)\.(\d+)\.(\d+)(?:-([\w.-]+))?(?:\+[\w.-]+)?$/.exec(v); if (!m) throw new TypeError(`Invalid version: ${v}`); return { major: +m[1], minor: +m[2], patch: +m[3], pre: m[4]?.split('.') ?? [] }; };
const show = (v) => `${v.major}.${v.minor}.${v.patch}${v.pre.length ? '-' + v.pre.join('.') : ''}`;
const compare = (a, b) => { for (const k of ['major', 'minor', 'patch']) if (a[k] !== b[k]) return a[k] - b[k]; if (!a.pre.length || !b.pre.length) return b.pre.length - a.pre.length; for (let i = 0; ; i++) { const [x, y] = [a.pre[i], b.pre[i]]; if (x === y) { if (x === undefined) return 0; continue; } if (x === undefined) return -1; if (y === undefined) return 1; const [n, m] = [+x, +y]; if (!isNaN(n) && !isNaN(m)) return n - m; if (!isNaN(n)) return -1; if (!isNaN(m)) return 1; return x < y ? -1 : 1; } };
function bump(v, kind, preid) { const n = { ...v, pre: [] }; if (kind === 'major') return { ...n, major: v.major + 1, minor: 0, patch: 0 }; if (kind === 'minor') return { ...n, minor: v.minor + 1, patch: 0 }; if (kind === 'patch') return v.pre.length ? n : { ...n, patch: v.patch + 1 }; if (kind === 'prerelease') { const last = Number(v.pre.at(-1)); return v.pre.length && !isNaN(last) ? { ...v, pre: [...v.pre.slice(0, -1), last + 1] } : { ...bump(v, 'patch'), pre: [preid, 0] }; } throw new Error(`unknown kind: ${kind}`); }
const manifest = JSON.parse(fs.readFileSync('package.json', 'utf8'));
const [kind] = process.argv.slice(2); const preid = process.argv[4];
const before = parse(manifest.version); const after = bump(before, kind, preid); manifest.version = show(after);
fs.writeFileSync('package.json', JSON.stringify(manifest, null, 2) + '\n');
console.log(`${show(before)} -> ${show(after)}`, show(bump(before, 'prerelease', preid)), show(bump(bump(before, 'prerelease', preid), 'prerelease')));
console.log(['1.0.0', '1.0.0-alpha.1', '1.0.0-alpha', '1.0.0-alpha.beta', '1.0.0-beta.11', '1.0.0-beta.2', '0.9.10'].map(parse).sort(compare).map(show).join(' < '));
try { parse('1.2'); } catch (e) { console.log(`${e}`); }
//// file: package.json
{ "name": "x", "version": "1.4.9", "private": true }
