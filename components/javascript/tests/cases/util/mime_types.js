const { MIMEType, MIMEParams, styleText } = require('node:util');

const type = new MIMEType(' Text/HTML ; charset="utf-8"; Q=1; q=2; bad name=x; empty= ');
console.log(String(type), type.type, type.subtype, type.essence, JSON.stringify(type), [...type.params]);
type.subtype = 'plain';
type.params.set('note', 'a "b"');
type.params.delete('q');
console.log(String(type), type.params.get('none'), type.params.has('charset'));
for (const bad of ['text', '/html', 'text/', 'te xt/html', '']) {
    try {
        console.log(String(new MIMEType(bad)));
    } catch (error) {
        console.log(error.name, error.code);
    }
}
console.log(String(new MIMEParams()) === '');
console.log(JSON.stringify(styleText('red', `a${styleText('blue', 'b', { validateStream: false })}`, { validateStream: false })));
