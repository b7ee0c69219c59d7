const shared = new SharedArrayBuffer(16); const view = new Int32Array(shared);
console.log(Atomics.add(view, 0, 5), Atomics.load(view, 0), Atomics.compareExchange(view, 0, 5, 9), view[0]);
const buffer = new ArrayBuffer(8, { maxByteLength: 16 }); buffer.resize(12); console.log(buffer.byteLength, buffer.resizable, buffer.transfer(4).byteLength, buffer.detached);
const dv = new DataView(new ArrayBuffer(16)); dv.setFloat64(0, Math.PI); dv.setInt16(8, -2, true); dv.setBigUint64(8, 2n ** 63n); console.log(dv.getUint8(0), dv.getFloat32(0), dv.getInt16(8), dv.getBigInt64(8));
