// argv: app.ini server.port
const fs = require('fs'); const ini = { parse(text) { const out = {}; let section = out; for (const raw of text.split(/\r?\n/)) { const line = raw.trim(); if (!line || /^[;#]/.test(line)) continue; const head = /^\[([^\]]+)\]$/.exec(line); if (head) { section = head[1].split('.').reduce((o, k) => (o[k] ??= {}), out); continue; } const [, key, value] = /^([^=]+?)\s*=\s*(.*)$/.exec(line) ?? [null, line, 'true']; const v = value === 'true' ? true : value === 'false' ? false : value !== '' && !Number.isNaN(Number(value)) ? Number(value) : value.replace(/^"(.*)"$/, '$1'); if (key.endsWith('[]')) (section[key.slice(0, -2)] ??= []).push(v); else section[key] = v; } return out; }, stringify(o, name = '') { let text = ''; const nested = []; for (const [k, v] of Object.entries(o)) { if (Array.isArray(v)) v.forEach((x) => (text += `${k}[]=${x}\n`)); else if (typeof v === 'object') nested.push([name ? `${name}.${k}` : k, v]); else text += `${k}=${v}\n`; } return (name && text ? `[${name}]\n` : '') + text + nested.map(([n, v]) => '\n' + ini.stringify(v, n)).join(''); } };
const data = ini.parse(fs.readFileSync(process.argv[2], 'utf8')); console.log(data); console.log(process.argv[3].split('.').reduce((o, k) => o?.[k], data)); data.server.port = 9090; fs.writeFileSync('new.ini', ini.stringify(data)); console.log(require('util').isDeepStrictEqual(ini.parse(fs.readFileSync('new.ini', 'utf8')), data));
//// file: app.ini
; settings
name = "My app"
debug
[server]
port=8080
hosts[]=a
hosts[]=b
[server.tls]
enabled=false
