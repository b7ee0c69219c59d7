// node:util/types.

import { types } from 'node:util';

export default types;
export const {
    isAnyArrayBuffer, isArgumentsObject, isArrayBuffer, isArrayBufferView, isAsyncFunction, isBigInt64Array, isBigIntObject, isBigUint64Array,
    isBooleanObject, isBoxedPrimitive, isCryptoKey, isDataView, isDate, isExternal, isFloat32Array, isFloat64Array, isGeneratorFunction,
    isGeneratorObject, isInt8Array, isInt16Array, isInt32Array, isKeyObject, isMap, isMapIterator, isModuleNamespaceObject, isNativeError,
    isNumberObject, isPromise, isProxy, isRegExp, isSet, isSetIterator, isSharedArrayBuffer, isStringObject, isSymbolObject, isTypedArray,
    isUint8Array, isUint8ClampedArray, isUint16Array, isUint32Array, isWeakMap, isWeakSet,
} = types;
