const zlib = require('zlib');
const { pipeline } = require('stream/promises');
const { Readable } = require('stream');
const text = 'The quick brown fox. '.repeat(500);
const packed = zlib.zstdCompressSync(text);
console.log(packed.length < 100, packed.subarray(0, 4).toString('hex'), zlib.zstdDecompressSync(packed).toString() === text);
console.log(zlib.zstdDecompressSync(Buffer.from('KLUv/QBYgAAA/9j/4AAQSkZJRgABAQEASA==', 'base64').subarray(0, 0)).length);
const levels = [1, 9, 19].map((level) => zlib.zstdCompressSync(text, { params: { [zlib.constants.ZSTD_c_compressionLevel]: level } }));
console.log(levels.every((one) => zlib.zstdDecompressSync(one).toString() === text));
for (const params of [{ 10000: 1 }, { [zlib.constants.ZSTD_c_strategy]: 99 }, { [zlib.constants.ZSTD_c_windowLog]: 'x' }]) {
  try { zlib.createZstdCompress({ params }); } catch (error) { console.log(error.name, error.code, error.message); }
}
try { zlib.zstdDecompressSync(Buffer.from('not packed')); } catch (error) { console.log(error.code, error.errno); }
const dictionary = Buffer.from('{"name": "", "value": ""}'.repeat(4));
const small = zlib.zstdCompressSync('{"name": "a", "value": "b"}', { dictionary });
console.log(zlib.zstdDecompressSync(small, { dictionary }).toString());
zlib.zstdCompress(text, (error, packed) => zlib.zstdDecompress(packed, (error, back) => console.log(error, back.toString() === text)));
(async () => {
  const parts = [];
  await pipeline(Readable.from([text, text]), zlib.createZstdCompress(), zlib.createZstdDecompress(), async (source) => { for await (const chunk of source) parts.push(chunk); });
  console.log(Buffer.concat(parts).toString() === text + text);
  const compress = zlib.createZstdCompress();
  compress.write('flushed', () => compress.flush(() => { console.log(compress.read().toString('hex')); compress.destroy(); }));
})();
