const { subtle } = globalThis.crypto;
const crypto = require('crypto');
(async () => {
  for (const namedCurve of ['P-256', 'P-384', 'P-521']) {
    const pair = crypto.generateKeyPairSync('ec', { namedCurve });
    for (const [format, key] of [['spki', pair.publicKey], ['pkcs8', pair.privateKey]]) {
      const usages = format === 'spki' ? ['verify'] : ['sign'];
      const imported = await subtle.importKey(format, key.export({ format: 'der', type: format }), { name: 'ECDSA', namedCurve }, true, usages);
      console.log(format, imported.type, imported.algorithm);
    }
    const other = namedCurve === 'P-256' ? 'P-384' : 'P-256';
    await subtle.importKey('spki', pair.publicKey.export({ format: 'der', type: 'spki' }), { name: 'ECDSA', namedCurve: other }, true, ['verify'])
      .catch((error) => console.log(error.name, error.message));
  }
})();
