// stdin: "Alice\n"
import readline from 'node:readline/promises'; const rl = readline.createInterface({ input: process.stdin, output: process.stdout }); const name = await rl.question('Name? '); console.log(`\nhello ${name}`); rl.close();
