import fs, { promises } from 'node:fs';
const attempt = async (name, src, dest, options) => {
    for (const [how, cp] of [['cp', promises.cp], ['cpSync', async (...args) => fs.cpSync(...args)]]) {
        await cp(src, dest, { recursive: true, ...options }).then(() => console.log(name, how, 'copied'), (error) => console.log(name, how, error.code));
    }
};
fs.mkdirSync('source/inner', { recursive: true });
fs.writeFileSync('source/file', 'content');
fs.writeFileSync('source/inner/file', 'inner');
fs.symlinkSync('source', 'link');
// What is the same file through a link is not removed.
await attempt('file', 'source/file', 'link/file');
await attempt('folder', 'source', 'link/../source');
await attempt('inner folder', 'source/inner', 'link/inner');
await attempt('target of a link', 'link', 'source', { dereference: true });
await attempt('into itself', 'source', 'source/new');
await promises.cp('source', 'link/new', { recursive: true }).catch((error) => console.log(error.code));
fs.symlinkSync('file', 'source/to-file');
await promises.cp('source/to-file', 'source/file').catch((error) => console.log(error.code));
console.log(fs.readFileSync('source/file', 'utf8'), fs.readFileSync('link/inner/file', 'utf8'), fs.readdirSync('source'));
console.log(fs.statSync('source/file').ino === fs.statSync('link/file').ino, fs.statSync('source').ino === fs.statSync('source/file').ino);
// The copy of a relative link leads to the same file, unless its text is copied.
fs.mkdirSync('copies/deep', { recursive: true });
fs.cpSync('source/to-file', 'copies/deep/to-file');
await promises.cp('source/to-file', 'copies/deep/again');
fs.cpSync('source/to-file', 'copies/deep/text', { verbatimSymlinks: true });
for (const name of ['to-file', 'again']) console.log(name, fs.realpathSync(`copies/deep/${name}`) === fs.realpathSync('source/file'));
console.log(fs.readlinkSync('copies/deep/text'));
fs.cpSync('source/inner', 'copies/inner', { recursive: true });
fs.cpSync('source/inner/file', 'copies/inner/file');
console.log(fs.readFileSync('copies/inner/file', 'utf8'));
// Links to folders, over other links.
fs.symlinkSync('source/inner', 'to-inner');
fs.symlinkSync('source', 'to-source');
await promises.cp('to-inner', 'to-source').catch((error) => console.log(error.code));
await promises.cp('to-source', 'to-inner').catch((error) => console.log(error.code));
fs.symlinkSync('copies', 'to-copies');
await promises.cp('to-inner', 'to-copies');
console.log(fs.realpathSync('to-copies') === fs.realpathSync('source/inner'));
// In the sandbox, links in a folder of the host are relative.
for (const name of ['copies/deep/to-file', 'copies/deep/again', 'to-copies']) fs.unlinkSync(name);
