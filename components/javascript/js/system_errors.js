// The numbers, names and texts of system errors, as libuv has them on Linux.

const ERRORS = new Map([
    [-7, ['E2BIG', 'argument list too long']], [-13, ['EACCES', 'permission denied']], [-98, ['EADDRINUSE', 'address already in use']],
    [-11, ['EAGAIN', 'resource temporarily unavailable']], [-9, ['EBADF', 'bad file descriptor']], [-16, ['EBUSY', 'resource busy or locked']],
    [-125, ['ECANCELED', 'operation canceled']], [-103, ['ECONNABORTED', 'software caused connection abort']],
    [-111, ['ECONNREFUSED', 'connection refused']], [-104, ['ECONNRESET', 'connection reset by peer']], [-17, ['EEXIST', 'file already exists']],
    [-14, ['EFAULT', 'bad address in system call argument']], [-27, ['EFBIG', 'file too large']], [-113, ['EHOSTUNREACH', 'host is unreachable']],
    [-4, ['EINTR', 'interrupted system call']], [-22, ['EINVAL', 'invalid argument']], [-5, ['EIO', 'i/o error']],
    [-21, ['EISDIR', 'illegal operation on a directory']], [-40, ['ELOOP', 'too many symbolic links encountered']],
    [-24, ['EMFILE', 'too many open files']], [-36, ['ENAMETOOLONG', 'name too long']], [-19, ['ENODEV', 'no such device']],
    [-2, ['ENOENT', 'no such file or directory']], [-12, ['ENOMEM', 'not enough memory']], [-28, ['ENOSPC', 'no space left on device']],
    [-38, ['ENOSYS', 'function not implemented']], [-20, ['ENOTDIR', 'not a directory']], [-39, ['ENOTEMPTY', 'directory not empty']],
    [-95, ['ENOTSUP', 'operation not supported on socket']], [-1, ['EPERM', 'operation not permitted']], [-32, ['EPIPE', 'broken pipe']],
    [-71, ['EPROTO', 'protocol error']], [-34, ['ERANGE', 'result too large']], [-30, ['EROFS', 'read-only file system']],
    [-29, ['ESPIPE', 'invalid seek']], [-3, ['ESRCH', 'no such process']], [-110, ['ETIMEDOUT', 'connection timed out']],
    [-26, ['ETXTBSY', 'text file is busy']], [-18, ['EXDEV', 'cross-device link not permitted']], [-4095, ['EOF', 'end of file']],
]);

export const getSystemErrorMap = () => new Map(ERRORS);
export const getSystemErrorName = (errno) => ERRORS.get(errno)?.[0] ?? `Unknown system error ${errno}`;
export const getSystemErrorMessage = (errno) => ERRORS.get(errno)?.[1] ?? `Unknown system error ${errno}`;
