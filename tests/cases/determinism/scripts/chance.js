const crypto = require('node:crypto');
console.log(Math.random(), Math.random(), crypto.randomUUID(), crypto.randomInt(1e9), crypto.randomBytes(16).toString('hex'));
console.log(globalThis.crypto.getRandomValues(new Uint32Array(4)), globalThis.crypto.randomUUID());
console.log([3, 1, 2, 5, 4].sort(() => Math.random() - 0.5), require('uuid').v4(), require('nanoid').nanoid());
console.log(crypto.scryptSync('word', crypto.randomBytes(8), 16, { N: 16 }).toString('hex'));
const { publicKey } = crypto.generateKeyPairSync('ed25519');
console.log(publicKey.export({ type: 'spki', format: 'pem' }));
crypto.randomBytes(8, (error, bytes) => console.log('later', bytes.toString('hex')));
