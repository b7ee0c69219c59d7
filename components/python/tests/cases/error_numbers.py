import errno
import os
import pickle


def tell(work):
    try:
        work()
    except OSError as error:
        print(type(error).__name__, error.errno, errno.errorcode[error.errno], str(error), error.filename, error.args)
        again = pickle.loads(pickle.dumps(error))
        print(isinstance(again, type(error).__mro__[1]), again.errno, error.errno in {errno.ENOENT, errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY, errno.EACCES})


os.makedirs("d/e")
open("f", "w").close()
tell(lambda: open("nope"))
tell(lambda: os.mkdir("d"))
tell(lambda: open("d"))
tell(lambda: os.listdir("f"))
tell(lambda: os.rmdir("d"))
tell(lambda: os.stat("f/x"))
tell(lambda: os.rename("nope", "x"))


def made_by_hand():
    raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), "by hand")


tell(made_by_hand)
try:
    raise OSError(errno.EACCES, "x")
except PermissionError as error:
    print("a PermissionError", error.errno == 13)
try:
    os.read(99, 1)
except OSError as error:
    print(error.errno, error)
