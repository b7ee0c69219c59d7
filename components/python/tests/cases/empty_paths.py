import os
import pathlib
import shutil

open("a.txt", "w").close()


def told(name, work):
    try:
        print(name, work())
    except Exception as error:
        print(name, type(error).__name__, error)


for name in "stat lstat listdir scandir mkdir rmdir remove unlink chdir utime".split():
    told(name, lambda: getattr(os, name)(""))
    told(name, lambda: getattr(os, name)(b""))
told("open", lambda: open(""))
told("open to write", lambda: open("", "w"))
told("os.open", lambda: os.open("", os.O_RDONLY))
told("chmod", lambda: os.chmod("", 0o644))
told("access", lambda: os.access("", os.R_OK))
told("exists", lambda: os.path.exists(""))
told("makedirs", lambda: os.makedirs("", exist_ok=True))
told("rename", lambda: os.rename("a.txt", ""))
told("copy", lambda: shutil.copy("a.txt", ""))
told("walk", lambda: list(os.walk("")))
print("a.txt" in os.listdir(None), "a.txt" in os.listdir(), [entry.name for entry in os.scandir() if entry.name == "a.txt"])
print(os.path.ismount("/"), pathlib.Path("/").resolve(), os.path.samefile("/", "//"))
told("mkdir /", lambda: os.mkdir("/"))
told("makedirs /", lambda: os.makedirs("/", exist_ok=True))
told("Path.mkdir", lambda: pathlib.Path("/").mkdir(exist_ok=True))
for name, *more in (("fchmod", 0o644), ("fchown", 0, 0)):
    told(name, lambda: getattr(os, name)(99, *more))
told("fchmod", lambda: os.fchmod(0, "x"))


class Keeps:
    remove, exists = os.remove, os.path.exists
    close = os.close


Keeps().remove("a.txt")
told("close", lambda: Keeps().close(99))
