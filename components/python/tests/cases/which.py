# sandbox: the paths are the sandbox's own
import os
import shutil
import sys

print(shutil.which("python3"), shutil.which("no-such-program"), sys.executable, os.path.exists(sys.executable))
print(os.access(sys.executable, os.X_OK), sorted(name for name in os.listdir("/usr/bin") if name.startswith("python")))
with open(os.devnull, "w") as file:
    print(file.write("gone"))
print(repr(open(os.devnull).read()))
