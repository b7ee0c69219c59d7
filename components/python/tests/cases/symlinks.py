import errno
import os
import pathlib
import shutil
import stat
import tarfile
import tempfile

# In /tmp, where a program may create any symlink, and in the folder of the test.
for top in (pathlib.Path(tempfile.mkdtemp()), pathlib.Path("links")):
    top.mkdir(exist_ok=True)
    (top / "real").mkdir()
    (top / "real/file").write_text("content")
    os.symlink("real", top / "folder")
    (top / "file").symlink_to("folder/file")
    os.symlink("missing", top / "dangling")
    print(os.readlink(top / "folder"), (top / "file").readlink(), (top / "file").read_text())
    print([(top / name).is_symlink() for name in ("folder", "file", "dangling", "real")], [(top / name).exists() for name in ("folder", "file", "dangling")])
    print((top / "file").resolve().relative_to(top.resolve()), os.path.realpath(top / "folder/..").endswith(top.name))
    print(stat.S_ISLNK(os.lstat(top / "folder").st_mode), stat.S_ISDIR(os.stat(top / "folder").st_mode), os.lstat(top / "folder").st_size)
    print(sorted((entry.name, entry.is_symlink(), entry.is_dir()) for entry in os.scandir(top)))
    for number, attempt in enumerate((
        lambda: os.symlink("x", top / "file"),
        lambda: os.readlink(top / "real"),
        lambda: open(top / "dangling").close(),
        lambda: os.open(top / "file", os.O_RDONLY | os.O_NOFOLLOW),
        lambda: os.rmdir(top / "folder"),
    )):
        try:
            attempt()
            print(number, "succeeded")
        except OSError as error:
            print(number, type(error).__name__, errno.errorcode[error.errno])
    shutil.copytree(top, str(top) + "-copy", symlinks=True)
    copy = pathlib.Path(str(top) + "-copy")
    print(sorted((path.relative_to(copy).as_posix(), path.is_symlink()) for path in copy.rglob("*")))
    with tarfile.open(top / "all.tar", "w") as archive:
        archive.add(copy, "copy")
    with tarfile.open(top / "all.tar") as archive:
        archive.extractall(top / "unpacked", filter="data")
    print(os.readlink(top / "unpacked/copy/folder"), (top / "unpacked/copy/file").read_text())
    os.rename(top / "file", top / "moved")
    os.unlink(top / "folder")
    print((top / "moved").is_symlink(), (top / "moved").exists(), (top / "real/file").exists())
    os.symlink("loop", top / "loop")
    try:
        (top / "loop").read_text()
    except OSError as error:
        print(errno.errorcode[error.errno])
    os.utime(top / "loop", (1, 1), follow_symlinks=False)
    print(os.lstat(top / "loop").st_mtime)
    shutil.rmtree(copy)
    shutil.rmtree(top)
    print(top.exists())
