// stdin: "some\ndata\n"
process.stdin.setEncoding('utf8'); let all = ''; process.stdin.on('data', (c) => (all += c)).on('end', () => console.log(JSON.stringify(all), process.stdin.isTTY)).on('close', () => console.log('close'));
