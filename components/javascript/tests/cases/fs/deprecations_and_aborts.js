// stderr: yes
const fs = require('node:fs');

fs.mkdirSync('folder/inner', { recursive: true });
fs.rmdirSync('folder', { recursive: true });
fs.mkdtemp('nameX', () => {});
const fd = fs.openSync('file', 'w');
fs.truncateSync(fd, 0);
fs.closeSync(fd);
const controller = new AbortController();
controller.abort(new Error('why'));
fs.readFile('file', { signal: controller.signal }, (error) => console.log(error.name, error.code, error.cause.message));
fs.promises.writeFile('file', 'x', { signal: controller.signal }).catch((error) => console.log(error.name, error.code, error.cause.message));

(async () => {
    fs.writeFileSync('file', 'text of a file');
    const handle = await fs.promises.open('file');
    let text = '';
    for await (const chunk of handle.readableWebStream()) text += Buffer.from(chunk);
    console.log(text);
    await handle.close();
    const dir = fs.opendirSync('.');
    console.log(dir.path, dir.readSync() instanceof fs.Dirent);
    dir.closeSync();
    const writing = await fs.promises.open('copy', 'w');
    const stream = fs.createWriteStream(null, { fd: writing, encoding: 'hex' });
    stream.end('616263');
    stream.on('close', () => console.log(fs.readFileSync('copy', 'utf8'), stream.bytesWritten));
})();
for (const work of [
    () => fs.opendirSync('.', { encoding: 'none' }), () => fs.writeSync(1, Buffer.alloc(1), -1), () => fs.Dir.prototype.path,
    () => fs.truncateSync('missing'), () => fs.WriteStream.prototype.autoClose,
]) {
    try {
        work();
    } catch (error) {
        console.log(error.code, error.syscall);
    }
}
fs.rmSync(fs.readdirSync('.').find((name) => name.startsWith('nameX')) ?? 'none', { recursive: true, force: true });
process.on('exit', () => fs.readdirSync('.').filter((name) => name.startsWith('nameX')).forEach((name) => fs.rmdirSync(name)));
