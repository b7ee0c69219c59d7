// stdin: "[{\"id\": 2, \"user\": {\"name\": \"Bo\", \"tags\": [\"x\"]}, \"active\": false}, {\"id\": 1, \"user\": {\"name\": \"Al\", \"tags\": []}, \"active\": true}]"
import process from 'node:process';

let input = '';
process.stdin.setEncoding('utf8');
for await (const chunk of process.stdin) input += chunk;

const flatten = (value, prefix = '') => Object.entries(value).reduce((out, [key, inner]) => {
  const name = prefix ? `${prefix}.${key}` : key;
  return inner && typeof inner === 'object' && !Array.isArray(inner) ? { ...out, ...flatten(inner, name) } : { ...out, [name]: inner };
}, {});

const records = JSON.parse(input).map((r) => flatten(r)).toSorted((a, b) => a.id - b.id);
process.stdout.write(JSON.stringify({ count: records.length, records, active: records.filter((r) => r.active).map((r) => r['user.name']) }, null, 2));
process.stdout.write('\n');
