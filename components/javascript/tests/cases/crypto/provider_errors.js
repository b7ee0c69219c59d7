const crypto = require('crypto');
const show = (label, run) => { try { run(); console.log(label, 'none'); } catch (error) { console.log(label, error.code, error.library, error.message); } };
const { publicKey, privateKey } = crypto.generateKeyPairSync('rsa-pss', { modulusLength: 1024, hashAlgorithm: 'sha256', mgf1HashAlgorithm: 'sha256', saltLength: 16 });
for (const name of ['publicEncrypt', 'privateDecrypt', 'privateEncrypt', 'publicDecrypt']) {
  show(name, () => crypto[name](name.startsWith('public') ? publicKey : privateKey, Buffer.alloc(128)));
}
show('sign', () => crypto.sign('sha256', Buffer.from('x'), { key: privateKey, padding: crypto.constants.RSA_PKCS1_PADDING }));
show('verify', () => crypto.verify('sha256', Buffer.from('x'), { key: publicKey, padding: crypto.constants.RSA_PKCS1_PADDING }, Buffer.alloc(128)));
for (const name of ['createCipheriv', 'createDecipheriv']) {
  for (const padding of [true, false]) {
    show(`${name} ${padding}`, () => {
      const cipher = crypto[name]('aes-128-cbc', Buffer.alloc(16), Buffer.alloc(16)).setAutoPadding(padding);
      cipher.update('abc');
      cipher.final();
    });
  }
}
show('padding', () => {
  const cipher = crypto.createDecipheriv('aes-128-cbc', Buffer.alloc(16), Buffer.alloc(16));
  cipher.update(Buffer.alloc(16));
  cipher.final();
});
show('scrypt', () => crypto.scryptSync('password', 'salt', 1, { N: 2 ** 10, r: 8, p: 1, maxmem: 2 ** 20 }));
console.log(Object.keys(crypto).filter((name) => /pseudo|rng/.test(name)), typeof crypto.prng);
