const url = require('node:url');
process.noDeprecation = true;

for (const text of [
    'http://user:p%40ss@Host.COM:8080/p/a/t/h?query=a b#hash', '//some_path/x?y', 'javascript:alert(\'x\');', 'mailto:a@b.c?subject=1', 'x:y/z',
    'http://a.com\\b?c\\d', '  http://[::1]:80/a  ', 'http://exa mple.com/', 'file:///etc/node', 'http://a.com/{x}^', '/a/b?c=d&e=f#g', 'git+ssh://x@y/z',
]) {
    for (const [query, host] of [[false, false], [true, true]]) {
        const { protocol, slashes, auth, host: all, port, hostname, hash, search, query: found, pathname, path, href } = url.parse(text, query, host);
        console.log(JSON.stringify([protocol, slashes, auth, all, port, hostname, hash, search, found, pathname, path, href]));
    }
}
console.log(url.format({ protocol: 'http', auth: 'a:b@c', hostname: '::1', port: 80, pathname: 'x?#y', query: { a: [1, 2] }, hash: 'z' }));
console.log(url.pathToFileURL('folder/').href === `${url.pathToFileURL(process.cwd())}/folder/`);
for (const bad of ['http://a^b/', 'http://[::1 ]/']) {
    try {
        console.log(url.parse(bad).href);
    } catch (error) {
        console.log(error.code);
    }
}
