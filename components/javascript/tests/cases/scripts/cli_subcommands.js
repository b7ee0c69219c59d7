#!/usr/bin/env node
// argv: add 'buy milk' --priority=high
const fs = require('fs'); const STORE = 'todo.json';
const load = () => (fs.existsSync(STORE) ? JSON.parse(fs.readFileSync(STORE, 'utf8')) : []);
const save = (items) => fs.writeFileSync(STORE, JSON.stringify(items, null, 2));
const commands = {
  add: { help: 'add TEXT [--priority=P]', run([text], { priority = 'normal' }) { const items = load(); items.push({ id: items.length + 1, text, priority, done: false }); save(items); console.log(`added #${items.length}`); } },
  list: { help: 'list [--all]', run(_, { all }) { for (const i of load()) if (all || !i.done) console.log(`${i.done ? '[x]' : '[ ]'} ${i.id} ${i.text} (${i.priority})`); } },
  done: { help: 'done ID', run([id]) { const items = load(); const item = items.find((i) => i.id === Number(id)); if (!item) throw Object.assign(new Error(`no item ${id}`), { exitCode: 4 }); item.done = true; save(items); } },
};
function main(argv) {
  const words = argv.filter((a) => !a.startsWith('--')); const options = Object.fromEntries(argv.filter((a) => a.startsWith('--')).map((a) => { const [k, v = true] = a.slice(2).split('='); return [k, v]; }));
  const [name, ...rest] = words; if (!name || options.help) { console.log('usage: todo COMMAND\n' + Object.values(commands).map((c) => '  ' + c.help).join('\n')); return 0; }
  const command = commands[name]; if (!command) { console.error(`unknown command: ${name}`); return 2; }
  try { command.run(rest, options); return 0; } catch (e) { console.error(`error: ${e.message}`); return e.exitCode ?? 1; }
}
if (require.main === module) { const first = main(process.argv.slice(2)); console.log(first, main(['add', 'second']), main(['list']), main(['done', '1']), main(['list', '--all']), main(['--help'])); process.exit(main(['done', '9'])); }
