// argv: --from commits.txt --version 2.0.0
const fs = require('fs'); const args = Object.fromEntries(process.argv.slice(2).reduce((pairs, word) => { if (word.startsWith('--')) pairs.push([word.slice(2)]); else pairs.at(-1).push(word); return pairs; }, []));
const groups = { feat: 'Features', fix: 'Bug fixes', perf: 'Performance', docs: 'Documentation' };
const commits = fs.readFileSync(args.from, 'utf8').trim().split('\n').map((line) => { const [hash, ...rest] = line.split(' '); const m = /^(\w+)(?:\(([^)]+)\))?(!)?: (.+)$/.exec(rest.join(' ')); return m ? { hash: hash.slice(0, 7), type: m[1], scope: m[2], breaking: !!m[3], subject: m[4] } : { hash, type: 'other', subject: rest.join(' ') }; });
const byType = Object.groupBy(commits, (c) => c.type);
let text = `## ${args.version}\n`;
const breaking = commits.filter((c) => c.breaking);
if (breaking.length) text += `\n### Breaking changes\n\n${breaking.map((c) => `- **${c.scope ?? 'general'}**: ${c.subject}`).join('\n')}\n`;
for (const [type, title] of Object.entries(groups)) { if (!byType[type]) continue; text += `\n### ${title}\n\n`; for (const c of byType[type].sort((a, b) => (a.scope ?? '').localeCompare(b.scope ?? ''))) text += `- ${c.scope ? `**${c.scope}:** ` : ''}${c.subject} (${c.hash})\n`; }
console.log(text); console.warn(`${byType.other?.length ?? 0} commits left out`);
fs.writeFileSync('CHANGELOG.md', `# Changelog\n\n${text}\n${fs.readFileSync('CHANGELOG.md', 'utf8').replace('# Changelog\n\n', '')}`);
//// file: commits.txt
1111111aaaa feat(api): add search
2222222bbbb fix: crash on empty input
3333333cccc feat!: drop Node 16
4444444dddd Merge branch 'x'
5555555eeee fix(cli): exit code
6666666ffff docs: explain
//// file: CHANGELOG.md
# Changelog

## 1.0.0

- first
