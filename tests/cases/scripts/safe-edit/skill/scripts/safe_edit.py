#!/usr/bin/env python3
"""Sets a value of an INI file: atomically, and with backups that rotate."""
import argparse
import configparser
import contextlib
import errno
import os
import shutil
import stat
import sys
import tempfile


@contextlib.contextmanager
def atomic_write(path):
    fd, temporary = tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(path)), prefix=".tmp-")
    try:
        with os.fdopen(fd, "w") as f:
            yield f
            f.flush()
            os.fsync(f.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def rotate(path, keep):
    for n in range(keep, 0, -1):
        source = path if n == 1 else f"{path}.bak{n - 1}"
        if os.path.exists(source):
            shutil.copy2(source, f"{path}.bak{n}")
            print(f"{source} -> {path}.bak{n}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("key", help="SECTION.NAME")
    parser.add_argument("value")
    parser.add_argument("--keep", type=int, default=3)
    args = parser.parse_args()

    config = configparser.ConfigParser()
    config.optionxform = str
    if not config.read(args.file):
        print(f"✗ {args.file}: {os.strerror(errno.ENOENT)}", file=sys.stderr)
        return 2
    section, _, name = args.key.partition(".")
    old = config.get(section, name, fallback=None)
    rotate(args.file, args.keep)
    config.set(section, name, args.value)
    with atomic_write(args.file) as f:
        config.write(f)
    print(f"{args.key}: {old} → {args.value}")
    print(sorted(os.listdir("conf")))

    try:
        with atomic_write(args.file) as f:
            f.write("half")
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        print("interrupted; still there:", config.getint("server", "port"), sorted(os.listdir("conf")))

    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree("conf", os.path.join(folder, "copy"), ignore=shutil.ignore_patterns("*.bak*"))
        print(os.listdir(os.path.join(folder, "copy")))
        shutil.move(os.path.join(folder, "copy", "app.ini"), os.path.join(folder, "moved.ini"))
        print(stat.filemode(os.stat(folder).st_mode)[0], os.listdir(os.path.join(folder, "copy")))
        kept = folder
    print(os.path.exists(kept), os.path.commonpath(["/a/b/c", "/a/b/d"]), os.path.relpath("/a/b", "/a/c"))
    for action in (lambda: os.rmdir("conf"), lambda: os.mkdir("conf"), lambda: open("no/such/file"), lambda: os.listdir("conf/app.ini"), lambda: open("conf", "w")):
        try:
            action()
        except OSError as e:
            print(type(e).__name__, e.errno, e.strerror)
    shutil.rmtree("gone", ignore_errors=True)
    with tempfile.SpooledTemporaryFile(max_size=10, mode="w+") as f:
        f.write("größer als zehn")
        f.seek(0)
        print(f.read())
    return 0


if __name__ == "__main__":
    sys.exit(main())
