# sandbox: one user, one machine and no other process
import getpass
import grp
import os
import platform
import pwd
import shutil
import socket
import sys

print(os.getpid(), os.getppid(), os.getuid(), os.getgid(), os.cpu_count(), os.name, sys.platform)
print(platform.system(), platform.machine(), platform.node(), socket.gethostname(), platform.python_version(), platform.platform())
print(sys.executable, sys.flags.utf8_mode, sys.getfilesystemencoding(), sys.stdout.encoding, sys.byteorder, sys.maxsize > 2**32)
print(getpass.getuser(), os.times().user >= 0, os.get_exec_path() != [])
print(*os.uname())
print(pwd.getpwuid(os.getuid()), pwd.getpwnam("nobody").pw_uid, grp.getgrgid(os.getgid()).gr_name, os.path.expanduser("~user"))
print(pwd.getpwuid(0), pwd.getpwnam("root").pw_dir)
try:
    pwd.getpwnam("daemon")
except KeyError as error:
    print(error)

# Only root gives files to others.
open("mine", "w").close()
for owner in ((1000, 1000), (-1, 1000), (-1, -1), (0, 0), (1000, 0), (65534, -1), (-2, 0), (1 << 40, 0), ("user", 0)):
    for change in (os.chown, os.lchown):
        try:
            print(owner, change("mine", *owner), os.stat("mine").st_uid)
        except (OSError, OverflowError, TypeError) as error:
            print(owner, type(error).__name__, error)
with open("mine") as file:
    print(os.fchown(file.fileno(), 1000, -1))
    for attempt in (lambda: os.fchown(file.fileno(), 0, 0), lambda: os.chown("missing", 0, 0), lambda: shutil.chown("mine", "root"), lambda: shutil.chown("mine", "nemo")):
        try:
            print(attempt())
        except (LookupError, OSError) as error:
            print(type(error).__name__, error)
