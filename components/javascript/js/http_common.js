// What programs take from Node's `_http_common`.

import { HTTPParser, methods } from 'internal:http_parser';

const TOKEN = /^[\^_`a-zA-Z\-0-9!#$%&'*+.|~]+$/;
const WRONG_VALUE = /[^\t\x20-\x7e\x80-\xff]/;

export function _checkIsHttpToken(text) {
    return TOKEN.test(text);
}

export function _checkInvalidHeaderChar(value) {
    return WRONG_VALUE.test(value);
}

// Parsers are not kept: only the limit can be seen.
export const parsers = { name: 'parsers', max: 1000, list: [] };
export const CRLF = '\r\n', chunkExpression = /(?:^|\W)chunked(?:$|\W)/i, continueExpression = /(?:^|\W)100-continue(?:$|\W)/i;
export const kIncomingMessage = Symbol('IncomingMessage'), isLenient = () => false, prepareError = () => {}, freeParser = () => {};
export { HTTPParser, methods };

export default {
    _checkInvalidHeaderChar, _checkIsHttpToken, chunkExpression, continueExpression, CRLF, freeParser, methods, parsers, kIncomingMessage, HTTPParser,
    isLenient, prepareError,
};
