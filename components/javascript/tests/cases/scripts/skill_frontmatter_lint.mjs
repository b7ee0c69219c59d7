// argv: skills
import { readdir, readFile } from 'node:fs/promises'; import { join } from 'node:path'; const problems = []; for (const name of (await readdir(process.argv[2])).sort()) { const file = join(process.argv[2], name, 'SKILL.md'); let text; try { text = await readFile(file, 'utf8'); } catch (e) { problems.push([name, e.code === 'ENOENT' ? 'has no SKILL.md' : e.message]); continue; } const m = text.match(/^---\r?\n([\s\S]+?)\r?\n---/); if (!m) { problems.push([name, 'has no frontmatter']); continue; } const fields = Object.fromEntries(m[1].split('\n').map((l) => l.match(/^([\w-]+):\s*(.*)$/)).filter(Boolean).map(([, k, v]) => [k, v])); if (fields.name !== name) problems.push([name, `is named ${fields.name ?? 'nothing'}`]); if (!fields.description) problems.push([name, 'has no description']); else if (fields.description.length > 40) problems.push([name, `description has ${fields.description.length} characters`]); } for (const [n, p] of problems) console.error(`${n}: ${p}`); console.log(`${problems.length} problems`); if (problems.length) process.exit(1);
//// file: skills/good/SKILL.md
---
name: good
description: Does good things.
---
//// file: skills/bad/SKILL.md
---
name: other
description: This description is much longer than it is allowed to be.
---
//// file: skills/none/README.md
x
//// file: skills/plain/SKILL.md
no frontmatter
