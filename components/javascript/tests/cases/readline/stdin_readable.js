// stdin: "{\"a\": [1, 2]}"
const chunks = []; process.stdin.on('readable', () => { let c; while ((c = process.stdin.read()) !== null) chunks.push(c); }); process.stdin.on('end', () => console.log(JSON.parse(Buffer.concat(chunks)).a));
