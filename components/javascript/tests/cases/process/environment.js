// env: GREETING='hello there' EMPTY=
console.log(process.env.GREETING, process.env.EMPTY === '', process.env.MISSING, 'GREETING' in process.env, 'MISSING' in process.env);
process.env.NEW = 5; process.env.FLAG = true; console.log(process.env.NEW, typeof process.env.NEW, process.env.FLAG); delete process.env.NEW; console.log(process.env.NEW, Object.keys(process.env).includes('GREETING'));
const { GREETING, OTHER = 'default' } = process.env; console.log(GREETING, OTHER, { ...process.env }.GREETING);
