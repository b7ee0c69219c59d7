import os
import pathlib
import shutil

base = pathlib.Path("out")
(base / "a/b").mkdir(parents=True)
(base / "a/b/x.txt").write_text("grüße\n")
shutil.copytree(base / "a", base / "c")
shutil.move(base / "c/b/x.txt", base / "y.txt")
print(sorted(p.as_posix() for p in base.rglob("*")))
print((base / "y.txt").read_text(), (base / "y.txt").stat().st_size, oct(os.stat(base / "y.txt").st_mode)[-3:], os.path.isdir("out"))
shutil.copy2(base / "y.txt", base / "z.txt")
os.chmod(base / "z.txt", 0o644)
with open(base / "z.txt", "a") as file:
    file.write("more")
print(open(base / "z.txt").encoding.lower(), open(base / "z.txt").read().split(), os.getcwd() == str(pathlib.Path().resolve()))
for folder, folders, names in os.walk(base):
    folders.sort()
    print(folder, folders, sorted(names))
shutil.rmtree(base)
print(base.exists(), sorted(pathlib.Path(".").glob("files*.py")))
