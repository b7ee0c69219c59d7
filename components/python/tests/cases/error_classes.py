import errno
import os
import pickle
import subprocess


def tell(error):
    assert isinstance(error, OSError)
    again = pickle.loads(pickle.dumps(error))
    print(type(error).__name__, error.errno, error, error.args, error.filename, type(again).__name__, again.errno)


for number in (1, 2, 3, 4, 5, 10, 11, 13, 17, 20, 21, 22, 28, 30, 32, 39, 44, 63, 69, 76, 103, 104, 110, 111, 114, 115, 9999):
    tell(OSError(number, "x"))
    tell(OSError(number, "x", "a", None, "b"))
for name in ("ENOENT", "EACCES", "EEXIST", "ENOTDIR", "EISDIR", "EPIPE", "ECONNRESET", "ECONNREFUSED", "ENOSPC", "EINVAL"):
    number = getattr(errno, name)
    tell(OSError(number, os.strerror(number)))
    tell(OSError(int(number), os.strerror(number), "file"))
tell(OSError("text"))
tell(OSError())
tell(FileNotFoundError(2, "x"))
tell(IOError(2, "x"))


class Mine(OSError):
    pass


tell(Mine(2, "x"))
try:
    raise OSError(2, "x")
except PermissionError:
    print("wrong")
except FileNotFoundError as error:
    print("right", repr(error))
try:
    open("nowhere")
except FileNotFoundError as error:
    tell(error)
    tell(OSError(error.errno, error.strerror, error.filename))
    tell(OSError(error.errno, "another text"))
try:
    os.mkdir("broken")
except FileExistsError as error:
    tell(error)
