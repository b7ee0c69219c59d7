// node:assert/strict.

export { strict as default, strict } from 'node:assert';
export {
    AssertionError, ok, strictEqual as equal, notStrictEqual as notEqual, deepStrictEqual as deepEqual, notDeepStrictEqual as notDeepEqual, strictEqual,
    notStrictEqual, deepStrictEqual, notDeepStrictEqual, throws, doesNotThrow, rejects, doesNotReject, ifError, match, doesNotMatch, fail,
} from 'node:assert';
