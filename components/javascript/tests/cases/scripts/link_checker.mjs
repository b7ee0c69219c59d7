// argv: docs
import fs from 'node:fs'; import path from 'node:path'; const root = process.argv[2]; const files = fs.readdirSync(root, { recursive: true }).filter((f) => f.endsWith('.md')).sort(); const anchors = (text) => new Set([...text.matchAll(/^#+ (.*)$/gm)].map((m) => m[1].toLowerCase().replace(/[^\w\s-]/g, '').replace(/\s/g, '-'))); let broken = 0, checked = 0; for (const file of files) { const text = fs.readFileSync(path.join(root, file), 'utf8'); text.split('\n').forEach((line, n) => { for (const [, label, target] of line.matchAll(/\[([^\]]*)\]\(([^)\s]+)[^)]*\)/g)) { if (URL.canParse(target)) continue; checked++; const [p, hash] = target.split('#'); const to = p ? path.join(root, path.dirname(file), decodeURIComponent(p)) : path.join(root, file); let why; if (!fs.existsSync(to)) why = 'no such file'; else if (hash && !anchors(fs.readFileSync(to, 'utf8')).has(hash)) why = 'no such heading'; if (why) { broken++; console.log(`${file}:${n + 1}: ${target}: ${why} [${label}]`); } } }); } console.log(`${checked} links in ${files.length} files, ${broken} broken`); process.exit(broken ? 1 : 0);
//// file: docs/a.md
# Top Level
[ok](b.md) [anchor](#top-level) [bad](#nope) [web](https://example.com)
[missing](gone.md) [sub](sub/c.md#deep-one) [space](with%20space.md "t")
//// file: docs/b.md
[up](a.md#top-level)
//// file: docs/sub/c.md
# Deep One
[back](../a.md) [wrong](a.md)
//// file: docs/with space.md
x
