// node:path/win32.

import { posix, win32 } from 'node:path';

export const {
    sep, delimiter, basename, dirname, extname, isAbsolute, join, normalize, relative, resolve, parse, format, matchesGlob, toNamespacedPath,
} = win32;
export { posix, win32 };
export default win32;
