// exit: 125
// fuel: 2000000000
console.log('spinning');
for (;;);
