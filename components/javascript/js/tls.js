// node:tls: constants. The host makes the connections of node:https and `fetch`.

import { Socket, Server } from 'node:net';

export class TLSSocket extends Socket {}
export { Server };
export const DEFAULT_MIN_VERSION = 'TLSv1.2', DEFAULT_MAX_VERSION = 'TLSv1.3', DEFAULT_ECDH_CURVE = 'auto', CLIENT_RENEG_LIMIT = 3, CLIENT_RENEG_WINDOW = 600;
export const DEFAULT_CIPHERS = 'TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256';
export const rootCertificates = Object.freeze([]);
export const getCiphers = () => ['tls_aes_256_gcm_sha384', 'tls_chacha20_poly1305_sha256', 'tls_aes_128_gcm_sha256'];
export const getCACertificates = () => [], createSecureContext = () => ({}), checkServerIdentity = () => undefined;
export const connect = (...args) => new TLSSocket().connect(...args), createServer = () => new Server();

export default {
    TLSSocket, Server, DEFAULT_MIN_VERSION, DEFAULT_MAX_VERSION, DEFAULT_ECDH_CURVE, CLIENT_RENEG_LIMIT, CLIENT_RENEG_WINDOW, DEFAULT_CIPHERS,
    rootCertificates, getCiphers, getCACertificates, createSecureContext, checkServerIdentity, connect, createServer,
};
