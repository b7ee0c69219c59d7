const fs = require('fs'), path = require('path'), crypto = require('crypto');
const CACHE = '.cache';

function cached(inputs, compute) {
  const hash = crypto.createHash('sha256');
  for (const file of inputs.toSorted()) hash.update(file).update('\0').update(fs.readFileSync(file)).update('\0');
  const key = hash.digest('hex').slice(0, 16);
  const entry = path.join(CACHE, `${key}.json`);
  try {
    const hit = JSON.parse(fs.readFileSync(entry, 'utf8'));
    return { ...hit, hit: true };
  } catch (error) { if (error.code !== 'ENOENT') throw error; }
  const value = { result: compute(inputs), key };
  fs.mkdirSync(CACHE, { recursive: true });
  fs.writeFileSync(`${entry}.tmp`, JSON.stringify(value));
  fs.renameSync(`${entry}.tmp`, entry);
  return { ...value, hit: false };
}
const count = (files) => files.reduce((n, f) => n + fs.readFileSync(f, 'utf8').split(/\s+/).filter(Boolean).length, 0);
console.log(cached(['a.txt', 'b.txt'], count));
console.log(cached(['b.txt', 'a.txt'], count));
fs.appendFileSync('a.txt', ' changed');
console.log(cached(['a.txt', 'b.txt'], count), fs.readdirSync(CACHE).length);
//// file: a.txt
one two three
//// file: b.txt
four
