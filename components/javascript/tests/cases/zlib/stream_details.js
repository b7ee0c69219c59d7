const zlib = require('zlib');
const inflate = zlib.createInflate();
inflate.on('data', (chunk) => console.log('data', chunk.toString())).on('end', () => console.log('end', inflate.bytesWritten));
const packed = zlib.deflateSync('content');
inflate.end(Buffer.concat([packed, Buffer.from('rest')]));
console.log(zlib.inflateSync(Buffer.concat([packed, Buffer.from('rest')])).toString());
const twice = Buffer.concat([zlib.gzipSync('one '), zlib.gzipSync('two')]);
console.log(zlib.gunzipSync(twice).toString(), zlib.unzipSync(twice).toString(), zlib.gunzipSync(Buffer.concat([twice, Buffer.alloc(5)])).toString());
const dictionary = Buffer.from('hello world');
const withDictionary = zlib.deflateSync('hello world hello', { dictionary });
console.log(zlib.inflateSync(withDictionary, { dictionary }).toString());
for (const [name, options] of [['none'], ['another', { dictionary: Buffer.from('other') }]]) {
  try { zlib.inflateSync(withDictionary, options); } catch (error) { console.log(name, error.code, error.errno, error.message); }
}
for (const bytes of ['00', '789c', '789c0000', '1f8b0900', '789cffff']) {
  try { zlib.unzipSync(Buffer.from(bytes, 'hex')); } catch (error) { console.log(bytes, error.code, error.errno, error.message); }
}
for (const options of [{ level: 10 }, { windowBits: 7 }, { chunkSize: 1 }, { strategy: 'x' }, { dictionary: 1 }, { flush: 9 }]) {
  try { zlib.createDeflate(options); } catch (error) { console.log(error.name, error.code, error.message); }
}
try { zlib.gunzipSync(zlib.gzipSync('x'.repeat(5000)), { maxOutputLength: 100 }); } catch (error) { console.log(error.code, error.message); }
const steps = zlib.createDeflate();
steps.write('abc');
steps.flush(() => {
  console.log('flushed', zlib.inflateSync(steps.read(), { finishFlush: zlib.constants.Z_SYNC_FLUSH }).toString());
  steps.params(0, zlib.constants.Z_DEFAULT_STRATEGY, () => { console.log('params'); steps.close(inSmallChunks); });
});
const broken = zlib.createGunzip();
broken.on('error', (error) => console.log('error', error.code, broken.destroyed));
broken.write('something invalid');
console.log(zlib.crc32('hello'), zlib.crc32('lo', zlib.crc32('hel')), zlib.constants.ZSTD_e_flush, zlib.codes.Z_BUF_ERROR, zlib.Z_BEST_SPEED);
function inSmallChunks() {
  console.log('closed');
  const small = zlib.createGzip({ chunkSize: 64 });
  let chunks = 0, size = 0;
  small.on('data', (chunk) => { chunks += 1; size = Math.max(size, chunk.length); }).on('end', () => console.log('chunks', chunks > 10, size));
  small.end(require('crypto').randomBytes(2000));
}
