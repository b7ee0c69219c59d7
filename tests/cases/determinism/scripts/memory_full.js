// exit: 125
console.log('filling');
const all = [];
for (;;) all.push(Buffer.alloc(1 << 20));
