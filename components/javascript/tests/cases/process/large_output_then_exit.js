for (let i = 0; i < 3000; i++) console.log(`${i} `.padEnd(60, '.')); process.stdout.write('the end\n', () => process.exit(0));
