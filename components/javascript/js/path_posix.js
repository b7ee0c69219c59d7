// node:path/posix.

import { posix, win32 } from 'node:path';

export const {
    sep, delimiter, basename, dirname, extname, isAbsolute, join, normalize, relative, resolve, parse, format, matchesGlob, toNamespacedPath,
} = posix;
export { posix, win32 };
export default posix;
