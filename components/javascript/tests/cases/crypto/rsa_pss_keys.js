const crypto = require('crypto');
const { publicKey, privateKey } = crypto.generateKeyPairSync('rsa-pss', { modulusLength: 1024, hashAlgorithm: 'sha256', mgf1HashAlgorithm: 'sha1', saltLength: 16 });
console.log(publicKey.asymmetricKeyType, publicKey.asymmetricKeyDetails, privateKey.asymmetricKeyDetails);
const signature = crypto.sign('sha256', Buffer.from('data'), privateKey);
console.log(crypto.verify('sha256', Buffer.from('data'), publicKey, signature), crypto.verify('sha256', Buffer.from('date'), publicKey, signature));
const again = crypto.createPublicKey(publicKey.export({ type: 'spki', format: 'pem' }));
console.log(again.asymmetricKeyDetails, crypto.verify('sha256', Buffer.from('data'), again, signature));
console.log(crypto.generateKeyPairSync('rsa-pss', { modulusLength: 512 }).publicKey.asymmetricKeyDetails);
const pair = crypto.generateKeyPairSync('rsa', { modulusLength: 1024, privateKeyEncoding: { type: 'pkcs8', format: 'der', cipher: 'aes-256-cbc', passphrase: 'secret' } });
try { crypto.createPrivateKey({ key: pair.privateKey, format: 'der', type: 'pkcs8' }); } catch (error) { console.log(error.name, error.code, error.message); }
console.log(crypto.createPrivateKey({ key: pair.privateKey, format: 'der', type: 'pkcs8', passphrase: 'secret' }).asymmetricKeyType);
const pem = crypto.createPrivateKey({ key: pair.privateKey, format: 'der', type: 'pkcs8', passphrase: 'secret' }).export({ type: 'pkcs8', format: 'pem', cipher: 'aes-128-cbc', passphrase: 'x' });
try { crypto.createPrivateKey(pem); } catch (error) { console.log(error.name, error.code, error.message); }
