import io
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile


def bits(path, **options):
    return oct(stat.S_IMODE(os.stat(path, **options).st_mode))


def new(name, text="x"):
    path = folder / name
    path.write_text(text)
    return path


folder = pathlib.Path(tempfile.mkdtemp())
print(bits(folder), bits(new("plain")), os.access(folder / "plain", os.X_OK), os.access(folder, os.X_OK))
script = new("script", "#!/bin/sh\necho from the script\n")
os.chmod(script, 0o755)
print(bits(script), os.access(script, os.X_OK), stat.filemode(script.stat().st_mode), oct(os.lstat(script).st_mode))
script.chmod(script.stat().st_mode & ~0o111)
print(bits(script), os.access(script, os.X_OK), os.access(script, os.R_OK))
with open(script) as file:
    os.fchmod(file.fileno(), 0o4750)
    print(oct(os.fstat(file.fileno()).st_mode), bits(file.fileno()))
print({entry.name: oct(stat.S_IMODE(entry.stat().st_mode)) for entry in sorted(os.scandir(folder), key=lambda entry: entry.name)})
print(sorted(name for _, _, names in os.walk(folder) for name in names), sorted(path.name for path in folder.rglob("*")))

# A copy has the bits of its original, a new file in its place has the defaults, and a moved one keeps its own.
shutil.copy(script, folder / "copy")
shutil.copyfile(script, folder / "content")
os.rename(script, folder / "moved")
print(bits(folder / "copy"), bits(folder / "content"), bits(folder / "moved"), bits(new("script")))

os.mkdir(folder / "private", 0o700)
os.makedirs(folder / "a/b", 0o750)
number = os.open(folder / "opened", os.O_CREAT | os.O_WRONLY, 0o600)
os.close(number)
print(bits(folder / "private"), bits(folder / "a"), bits(folder / "a/b"), bits(folder / "opened"))
number = os.open(folder / "opened", os.O_CREAT | os.O_WRONLY, 0o666)
os.close(number)
print(bits(folder / "opened"))
with tempfile.NamedTemporaryFile(dir=folder) as file:
    print(bits(file.name), oct(stat.S_IMODE(os.fstat(file.fileno()).st_mode)))

print(oct(os.umask(0o077)), bits(new("masked")), oct(os.umask(0o002)), bits(new("group")), oct(os.umask(0o022)), bits(new("again")))
with open(folder / "group", "a") as file, io.open(folder / "binary", "xb") as other:
    print(bits(folder / "group"), bits(folder / "binary"), other.write(b"1"))

with tarfile.open(folder / "all.tar", "w") as archive:
    archive.add(folder / "moved", "moved")
    archive.add(folder / "private", "private")
with tarfile.open(folder / "all.tar") as archive:
    print([oct(member.mode) for member in archive])
    archive.extractall(folder / "out", filter="fully_trusted")
print(bits(folder / "out/moved"), bits(folder / "out/private"))

os.symlink("plain", folder / "link")
os.chmod(folder / "link", 0o640)
print(bits(folder / "plain"), bits(folder / "link"), stat.S_ISLNK(os.lstat(folder / "link").st_mode))
for attempt in (lambda: os.chmod(folder / "none", 0o600), lambda: os.chmod(folder / "plain", "755"), lambda: os.fchmod(999, 0o600)):
    try:
        attempt()
    except (OSError, TypeError) as error:
        print(type(error).__name__)

# Other programs see the bits, and set them.
ask = f"import os; print(oct(os.stat({str(folder / 'moved')!r}).st_mode & 0o7777)); os.chmod({str(folder / 'plain')!r}, 0o511)"
subprocess.run([sys.executable, "-c", ask], check=True)
print(bits(folder / "plain"))
subprocess.run(["sh", "-c", f"chmod 600 {folder}/moved && [ ! -x {folder}/moved ] && chmod +x {folder}/script"], check=True)
print(bits(folder / "moved"), bits(folder / "script"))
shutil.rmtree(folder)
print(folder.exists())
