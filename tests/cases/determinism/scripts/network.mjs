// The network is off, so each way fails at once, in the same words.
import https from 'node:https';
import dns from 'node:dns';
try {
    await fetch('https://api.example.com/');
} catch (error) {
    console.log(error.message, error.cause?.message);
}
https.get('https://api.example.com/', () => {}).on('error', (error) => console.log(error.code, error.message));
dns.lookup('api.example.com', (error) => console.log(error.code));
import('axios').then(({ default: axios }) => axios.get('https://api.example.com/')).catch((error) => console.log(error.code, error.message));
