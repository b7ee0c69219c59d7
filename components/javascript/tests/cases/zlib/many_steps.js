const zlib = require('zlib');
const data = Buffer.alloc(4 << 20, 'a line of text\n');
const packed = zlib.gzipSync(data);
zlib.gunzip(packed, { chunkSize: 64 }, (error, result) => console.log('gunzip', error, result?.equals(data)));
zlib.brotliDecompress(zlib.brotliCompressSync(data, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 1 } }), { chunkSize: 64 },
    (error, result) => console.log('brotliDecompress', error, result?.equals(data)));
let length = 0;
const stream = zlib.createGunzip({ chunkSize: 64 });
stream.on('data', (chunk) => { length += chunk.length; }).on('end', () => console.log('stream', length)).end(packed);
