// stdin: "x\ny\n"
let s = ''; for await (const chunk of process.stdin) s += chunk; console.log(s.trim().split('\n')); import { text } from 'stream/consumers'; console.log(typeof text);
