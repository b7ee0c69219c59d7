import os
import pathlib
import stat

folder = pathlib.Path("modes")
folder.mkdir()
(folder / "file").write_text("x")
(folder / "inner").mkdir()


def told(result):
    return stat.filemode(result.st_mode), result.st_uid == os.getuid(), result.st_gid == os.getgid(), result.st_nlink > 0


for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
    print(entry.name, told(entry.stat()), told(entry.stat(follow_symlinks=False)), entry.inode() == entry.stat().st_ino)
with open(folder / "file") as file:
    print(told(os.stat(folder)), told(os.lstat(folder / "file")), told(os.fstat(file.fileno())))
    print([os.path.exists(path) for path in (folder, "modes/file", b"modes/file", file.fileno(), "modes/none", "", 999, "a\0b")])
print([os.access(folder / name, os.R_OK | os.W_OK) for name in ("file", "inner", "none")])
try:
    os.path.exists(None)
except TypeError as error:
    print(type(error).__name__)

os.environ["GIVEN"] = "ü"
print("GIVEN" in os.environ, os.environ.get("GIVEN"), "NONE" in os.environ, os.environ.get("NONE"), os.environ.get("NONE", "other"))
del os.environ["GIVEN"]
print("GIVEN" in os.environ, os.environ.get("GIVEN", ""))
for ask in (lambda: os.environ.get(1), lambda: b"GIVEN" in os.environ):
    try:
        ask()
    except TypeError as error:
        print(error)

import subprocess
import sys

ask = [sys.executable, "-c", "import os; print(os.environ.get('GIVEN'), 'PATH' in os.environ)"]
os.environ["GIVEN"] = "grün"
subprocess.run(ask, check=True)
os.environ = {**os.environ, "GIVEN": "a dictionary"}
subprocess.run(ask, check=True)
subprocess.run(ask, check=True, env={})
for env in ({"A=B": "c"}, {"A": "b\0c"}):
    try:
        subprocess.run(ask, env=env)
    except ValueError as error:
        print(error)
