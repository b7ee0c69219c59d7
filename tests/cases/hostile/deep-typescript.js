// Files of TypeScript that are nested too deeply. Each line says how loading one ended.
const { writeFileSync, writeSync } = require('node:fs');
const DEPTH = 50_000;

const nested = (open, inner, close) => open.repeat(DEPTH) + inner + close.repeat(DEPTH);
const FILES = {
    parentheses: nested('(', '1', ')'),
    brackets: nested('[', '', ']'),
    'open brackets': '['.repeat(DEPTH),
    blocks: nested('{', '', '}'),
    objects: 'x = ' + nested('{a:', '1', '}'),
    'arrow functions': 'a=>'.repeat(DEPTH) + '1',
    functions: nested('(function(){', '', '})'),
    operators: '!'.repeat(DEPTH) + '1',
    'signs': '- '.repeat(DEPTH) + '1',
    words: 'typeof '.repeat(DEPTH) + '1',
    awaits: 'await '.repeat(DEPTH) + '1',
    powers: '1**'.repeat(DEPTH) + '1',
    sums: '1+'.repeat(DEPTH) + '1',
    conditions: '1?1:'.repeat(DEPTH) + '1',
    assignments: 'a='.repeat(DEPTH) + '1',
    statements: 'if(1)'.repeat(DEPTH) + ';',
    alternatives: 'if(1);else '.repeat(DEPTH) + ';',
    loops: 'for(;0;)'.repeat(DEPTH) + ';',
    labels: 'a:'.repeat(DEPTH) + ';',
    templates: nested('`${', '1', '}`'),
    members: 'a' + '.a'.repeat(DEPTH),
    calls: 'a' + '()'.repeat(DEPTH),
    'non-null': 'a' + '!'.repeat(DEPTH) + ';',
    casts: 'a' + ' as any'.repeat(DEPTH),
    assertions: '<any>'.repeat(DEPTH) + '1',
    'type arguments': 'let a: ' + nested('A<', 'A', '>'),
    'array types': 'let a: ' + nested('(', 'A', ')[]'),
    'conditional types': 'type A = ' + 'B extends C ? D : '.repeat(DEPTH) + 'E',
    'function types': 'type A = ' + '()=>'.repeat(DEPTH) + 'A',
    'type operators': 'type A = ' + 'keyof '.repeat(DEPTH) + 'A',
    'union types': 'type A = ' + 'B|'.repeat(DEPTH) + 'B',
    'object types': 'type A = ' + nested('{a:', 'A', '}'),
    'tuple types': 'type A = ' + nested('[', 'A', ']'),
    'template types': 'type A = ' + nested('`${', 'A', '}`'),
    namespaces: 'namespace A' + '.A'.repeat(DEPTH) + ' {}',
    'nested namespaces': nested('namespace A {', '', '}'),
    patterns: 'var ' + nested('[', 'a', ']') + ' = []',
    decorators: '@a '.repeat(DEPTH) + 'class A {}',
    classes: nested('(class{x=', '1', '})'),
    'generic arrows': nested('<T>(a=', '1', ')=>1'),
    'rewound parentheses': nested('(a=', '1', ')'),
};

for (const [name, text] of Object.entries(FILES)) {
    let end = 'done';
    writeFileSync('/tmp/deep.cts', text);
    delete require.cache['/tmp/deep.cts'];
    try {
        require('/tmp/deep.cts');
    } catch (error) {
        end = error?.constructor?.name ?? String(error);
    }
    writeSync(1, `${name}: ${end}\n`);
}
process.on('exit', () => writeSync(1, 'end\n'));
