// stdin: "never read\n"
console.log('does not wait for stdin'); process.stdin.on('end', () => {}); process.stdin.unref?.(); console.log(process.stdin.readable);
