// argv: text.txt 5
import { readFile } from 'node:fs/promises'; const [file, top] = process.argv.slice(2); const stop = new Set('the a of and to in is it'.split(' ')); const words = (await readFile(file, 'utf8')).toLowerCase().match(/\p{L}+(?:'\p{L}+)?/gu) ?? []; const counts = words.filter((w) => !stop.has(w)).reduce((m, w) => m.set(w, (m.get(w) ?? 0) + 1), new Map()); const width = Math.max(...[...counts.keys()].map((w) => w.length)); for (const [w, n] of [...counts].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0])).slice(0, Number(top))) console.log(w.padEnd(width), String(n).padStart(3), '█'.repeat(n)); console.log(`${words.length} words, ${counts.size} distinct`);
//// file: text.txt
The quick brown fox jumps over the lazy dog. It's the dog's day: the Fox isn't lazy.
Über-café, über alles! A fox is a fox is a fox.
