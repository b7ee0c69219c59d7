# sandbox: the skill's folder is read-only, and other folders are not there
import os
import pathlib

for path in ("/skill/new.txt", "/etc/passwd", "/new.txt"):
    try:
        open(path, "w")
    except OSError as error:
        print(type(error).__name__, error)
try:
    os.mkdir("/skill/new")
except PermissionError as error:
    print(error)
print(os.path.exists("/etc"), os.path.isdir("/"), os.access("/skill/SKILL.md", os.R_OK), os.listdir("/"), pathlib.Path("/workspace/x").resolve())
