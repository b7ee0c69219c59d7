// argv: app.log
const fs = require('fs');
const readline = require('readline');

async function main(file) {
  if (!file) { console.error('usage: log_summary FILE'); process.exit(2); }
  const levels = {}, errors = new Map();
  let first, last, lines = 0, unparsed = 0;
  const rl = readline.createInterface({ input: fs.createReadStream(file), crlfDelay: Infinity });
  for await (const line of rl) {
    if (!line.trim()) continue;
    lines++;
    const m = /^(?<time>\S+) \[(?<level>\w+)\] (?<message>.*)$/.exec(line);
    if (!m) { unparsed++; continue; }
    const { time, level, message } = m.groups;
    first ??= new Date(time); last = new Date(time);
    levels[level] = (levels[level] || 0) + 1;
    if (level === 'ERROR') { const key = message.replace(/\d+/g, 'N'); errors.set(key, (errors.get(key) || 0) + 1); }
  }
  console.log(`${lines} lines, ${unparsed} unparsed, ${(last - first) / 1000} s`);
  console.table(levels);
  for (const [message, count] of [...errors].sort((a, b) => b[1] - a[1])) console.log(String(count).padStart(4), message);
  process.exitCode = errors.size ? 1 : 0;
}
main(process.argv[2]).catch((e) => { console.error(e); process.exit(70); });
//// file: app.log
2024-01-01T00:00:00Z [INFO] started
2024-01-01T00:00:01.500Z [ERROR] request 12 failed
garbage
2024-01-01T00:00:02Z [ERROR] request 99 failed

2024-01-01T00:01:00Z [WARN] slow
2024-01-01T00:01:05Z [ERROR] disk full
