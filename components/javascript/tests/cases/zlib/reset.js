const zlib = require('zlib');
const collect = (stream, act) => new Promise((resolve, reject) => {
    const parts = [];
    stream.on('data', (part) => parts.push(part)).on('end', () => resolve(Buffer.concat(parts))).on('error', reject);
    act(stream);
});
(async () => {
    for (const [create, unpack, options] of [
        [zlib.createDeflateRaw, zlib.inflateRawSync, {}],
        [zlib.createBrotliCompress, zlib.brotliDecompressSync, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 4 } }],
    ]) {
        const packed = await collect(create(options), (stream) => stream.write('forgotten', () => {
            stream.reset();
            stream.end('kept');
        }));
        console.log(unpack(packed).toString());
    }
    const whole = zlib.brotliCompressSync('a text');
    const unpacked = await collect(zlib.createBrotliDecompress(), (stream) => stream.write(whole.subarray(0, 3), () => {
        stream.reset();
        stream.end(whole);
    }));
    console.log(unpacked.toString());
})();
