// argv: big.txt
const fs = require('fs'); const { Transform, pipeline } = require('stream');
fs.writeFileSync('big.txt', Array.from({ length: 20000 }, (_, i) => `line ${i} ${'x'.repeat(i % 17)}`).join('\n'));
class Lines extends Transform { constructor() { super({ readableObjectMode: true }); this.tail = ''; } _transform(chunk, enc, done) { const parts = (this.tail + chunk).split('\n'); this.tail = parts.pop(); for (const p of parts) this.push(p); done(); } _flush(done) { if (this.tail) this.push(this.tail); done(); } }
let lines = 0, longest = '', bytes = 0;
pipeline(fs.createReadStream(process.argv[2]), new Lines(), async function (source) { for await (const line of source) { lines++; bytes += line.length; if (line.length > longest.length) longest = line; } }, (error) => { if (error) throw error; console.log({ lines, bytes, longest }); fs.unlinkSync('big.txt'); });
