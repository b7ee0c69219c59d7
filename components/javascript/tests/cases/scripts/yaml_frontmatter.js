// argv: posts
const fs = require('fs'), path = require('path');
function frontmatter(text) { const m = /^---\n([\s\S]*?)\n---\n?/.exec(text); if (!m) return { data: {}, body: text }; const data = {}; let key; for (const line of m[1].split('\n')) { const item = /^\s+- (.*)$/.exec(line); if (item) (data[key] = Array.isArray(data[key]) ? data[key] : []).push(item[1]); else { const i = line.indexOf(':'); key = line.slice(0, i).trim(); const v = line.slice(i + 1).trim(); data[key] = /^\[.*\]$/.test(v) ? v.slice(1, -1).split(',').map((s) => s.trim()) : v === 'true' ? true : v === 'false' ? false : v !== '' && !isNaN(v) ? Number(v) : v.replace(/^(['"])(.*)\1$/, '$2'); } } return { data, body: text.slice(m[0].length) }; }
const posts = fs.readdirSync(process.argv[2]).filter((f) => f.endsWith('.md')).map((f) => { const { data, body } = frontmatter(fs.readFileSync(path.join(process.argv[2], f), 'utf8')); return { slug: path.basename(f, '.md'), ...data, words: body.trim().split(/\s+/).length }; }).filter((p) => !p.draft).sort((a, b) => String(b.date).localeCompare(String(a.date)));
console.log(JSON.stringify(posts, null, 1)); fs.writeFileSync('index.json', JSON.stringify(posts.map((p) => p.slug)));
//// file: posts/one.md
---
title: "First: post"
date: 2024-01-02
tags: [a, b]
weight: 1.5
---
Hello there world.
//// file: posts/two.md
---
title: Second
date: 2024-03-04
tags:
  - x
  - y z
---
Short.
//// file: posts/three.md
---
draft: true
---
hidden
