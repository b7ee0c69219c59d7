"""Error numbers as on Linux. WASI counts them in another order, and scripts know 2 for ENOENT, by name and by number.

An OSError is made inside the interpreter, with WASI's number, and its class is looked up in a table by that number. Here the table is
given classes of our own, which put the number right as they are made: what goes well costs nothing.

An `OSError(2, "x")` of a script comes the same way, with Linux's number. The text tells them apart: the interpreter's is libc's for the number.
"""

import errno
import gc
import os

# Numbers of Linux on every 64-bit machine that matters here: include/uapi/asm-generic/errno-base.h and errno.h.
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
    """A number as Linux counts: equal to the plain one, and yet a key of its own in the interpreter's table, where WASI's 2 is EACCES."""

    __slots__ = ()

    def __hash__(self):
        return int.__hash__(self) + (1 << 20)


# WASI's number -> Linux's, and back.
TO_LINUX = {}
TO_WASI = {}
# WASI's number -> what libc says of it.
TEXTS = {}
# Linux's number -> the class of an error that a script makes with it.
CLASSES = {}
EMPTY = (("",), (b"",))
WASI_EISDIR = errno.EISDIR


def corrected(base):
    """A subclass that passes for `base` in every message and in pickles, and whose number is Linux's."""

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
        # Not the base's, which refuses an error that has another class by now.
        OSError.__init__(self, *args)

    def __reduce__(self):
        _, *rest = base.__reduce__(self)
        return base, *rest

    # Without slots of its own the layout is the base's, and one class can be put in another's place.
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
        # EAGAIN and EWOULDBLOCK are one number, met twice.
        known = table.get(wasi, OSError)
        table[wasi] = table[numbers[linux]] = CLASSES[linux] = classes.get(known, known)
        setattr(errno, name, numbers[linux])
    # "Capabilities insufficient": what a path outside of every mount comes to. Linux has no such error.
    TO_LINUX[errno.ENOTCAPABLE] = numbers[LINUX["EACCES"]]
    TEXTS[errno.ENOTCAPABLE] = os.strerror(errno.ENOTCAPABLE)
    table[errno.ENOTCAPABLE] = classes[PermissionError]

    # A sandbox's folders are read-only because writing was not allowed, and scripts know that by this class.
    table[wasi_erofs] = table[errno.EROFS] = classes[PermissionError]
    # Those that no WASI error has.
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
