"""Linux's error numbers. WASI numbers errors differently, while scripts expect 2 for ENOENT, by name and by number.

The interpreter creates an OSError with WASI's number and looks up its class by that number. Here that table contains classes of this
module, which correct the number when an exception is created. Code without errors is not slowed down.

An `OSError(2, "x")` of a script takes the same path, with Linux's number. The text distinguishes the two: the interpreter uses libc's
text for the number.
"""

import errno
import gc
import os

# Linux's numbers on all relevant 64-bit machines: include/uapi/asm-generic/errno-base.h and errno.h.
LINUX = {
    "EPERM": 1, "ENOENT": 2, "ESRCH": 3, "EINTR": 4, "EIO": 5, "ENXIO": 6, "E2BIG": 7, "ENOEXEC": 8, "EBADF": 9, "ECHILD": 10,
    "EAGAIN": 11, "EWOULDBLOCK": 11, "ENOMEM": 12, "EACCES": 13, "EFAULT": 14, "EBUSY": 16, "EEXIST": 17, "EXDEV": 18, "ENODEV": 19,
    "ENOTDIR": 20, "EISDIR": 21, "EINVAL": 22, "ENFILE": 23, "EMFILE": 24, "ENOTTY": 25, "ETXTBSY": 26, "EFBIG": 27, "ENOSPC": 28,
    "ESPIPE": 29, "EROFS": 30, "EMLINK": 31, "EPIPE": 32, "EDOM": 33, "ERANGE": 34, "EDEADLK": 35, "ENAMETOOLONG": 36, "ENOLCK": 37,
    "ENOSYS": 38, "ENOTEMPTY": 39, "ELOOP": 40, "ENOMSG": 42, "EIDRM": 43, "ENOLINK": 67, "EPROTO": 71, "EMULTIHOP": 72, "EBADMSG": 74,
    "EOVERFLOW": 75, "EILSEQ": 84, "ENOTSOCK": 88, "EDESTADDRREQ": 89, "EMSGSIZE": 90, "EPROTOTYPE": 91, "ENOPROTOOPT": 92,
    "EPROTONOSUPPORT": 93, "EOPNOTSUPP": 95, "ENOTSUP": 95, "EAFNOSUPPORT": 97, "EADDRINUSE": 98, "EADDRNOTAVAIL": 99, "ENETDOWN": 100,
    "ENETUNREACH": 101, "ENETRESET": 102, "ECONNABORTED": 103, "ECONNRESET": 104, "ENOBUFS": 105, "EISCONN": 106, "ENOTCONN": 107,
    "ETIMEDOUT": 110, "ECONNREFUSED": 111, "EHOSTUNREACH": 113, "EALREADY": 114, "EINPROGRESS": 115, "ESTALE": 116, "EDQUOT": 122,
    "ECANCELED": 125, "EOWNERDEAD": 130, "ENOTRECOVERABLE": 131,
}  # fmt: skip


class Number(int):
    """One of Linux's numbers. It equals the plain number, but is a separate key in the interpreter's table, where WASI's 2 means EACCES."""

    __slots__ = ()

    def __hash__(self):
        return int.__hash__(self) + (1 << 20)


# Maps WASI's numbers to Linux's, and the reverse.
TO_LINUX = {}
TO_WASI = {}
# Maps WASI's numbers to libc's texts.
TEXTS = {}
# Maps Linux's numbers to the class of an error that a script creates.
CLASSES = {}
EMPTY = (("",), (b"",))
WASI_EISDIR = errno.EISDIR


def corrected(base):
    """Returns a subclass that looks like `base` in messages and pickles, and that has Linux's number."""

    def __init__(self, *args):
        if len(args) > 1 and type(args[0]) is int:
            number, text, *_ = args
            if args[2:3] in EMPTY and TEXTS.get(number) == text == TEXTS[WASI_EISDIR]:
                # `open("")`: see `system.with_path`.
                args = (LINUX["ENOENT"], os.strerror(LINUX["ENOENT"]), *args[2:])
                self.__class__ = CLASSES[LINUX["ENOENT"]]
            elif TEXTS.get(number) == text:
                args = (TO_LINUX.get(number, number), *args[1:])
            else:
                self.__class__ = CLASSES.get(number, CLASSES[None])
        # The base's method refuses an error whose class has changed.
        OSError.__init__(self, *args)

    def __reduce__(self):
        _, *rest = base.__reduce__(self)
        return base, *rest

    # Without slots of its own, the class has the layout of the base and can replace its class.
    ours = {"__slots__": (), "__init__": __init__, "__reduce__": __reduce__}
    return type(base.__name__, (base,), {**ours, "__module__": "builtins", "__qualname__": base.__qualname__, "__doc__": base.__doc__})


def install():
    table, wasi_erofs = interpreter_table(), errno.EROFS
    classes = {base: corrected(base) for base in {OSError, *table.values()}}
    numbers = {value: Number(value) for value in LINUX.values()}
    CLASSES[None] = classes[OSError]
    for name, linux in LINUX.items():
        wasi = getattr(errno, name, None)
        if wasi is None:
            continue
        TO_LINUX[wasi] = numbers[linux]
        TO_WASI[linux] = wasi
        TEXTS[wasi] = os.strerror(wasi)
        # EAGAIN and EWOULDBLOCK are the same number, so it occurs twice.
        known = table.get(wasi, OSError)
        table[wasi] = table[numbers[linux]] = CLASSES[linux] = classes.get(known, known)
        setattr(errno, name, numbers[linux])
    # "Capabilities insufficient": the error for paths outside of all mounts. Linux has no such error.
    TO_LINUX[errno.ENOTCAPABLE] = numbers[LINUX["EACCES"]]
    TEXTS[errno.ENOTCAPABLE] = os.strerror(errno.ENOTCAPABLE)
    table[errno.ENOTCAPABLE] = classes[PermissionError]

    # A folder is read-only here because writing was not granted, which scripts expect as this class.
    table[wasi_erofs] = table[errno.EROFS] = classes[PermissionError]
    # Numbers without a WASI error.
    for linux in CLASSES.keys() - {None}:
        table.setdefault(linux, classes[OSError])

    errno.errorcode.clear()
    errno.errorcode.update({number: next(name for name, linux in LINUX.items() if linux == number) for number in numbers.values()})
    wasi_strerror = os.strerror
    os.strerror = lambda code: wasi_strerror(TO_WASI.get(int(code), code))


def interpreter_table():
    for referrer in gc.get_referrers(FileNotFoundError):
        if isinstance(referrer, dict) and (referrer.get(errno.ENOENT), referrer.get(errno.EACCES)) == (FileNotFoundError, PermissionError):
            return referrer
    raise RuntimeError("the interpreter's table of error numbers was not found: this CPython keeps it elsewhere")
