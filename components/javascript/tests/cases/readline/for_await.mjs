// stdin: "a\r\nb\nc\n"
import readline from 'node:readline'; import { stdin } from 'node:process'; const out = []; for await (const line of readline.createInterface({ input: stdin, crlfDelay: Infinity })) out.push(line); console.log(out);
