# one user, one machine and no other process
import getpass
import grp
import os
import platform
import pwd
import socket
import sys

print(os.getpid(), os.getppid(), os.getuid(), os.getgid(), os.cpu_count(), os.name, sys.platform)
print(platform.system(), platform.machine(), platform.node(), socket.gethostname(), platform.python_version(), platform.platform())
print(sys.executable, sys.flags.utf8_mode, sys.getfilesystemencoding(), sys.stdout.encoding, sys.byteorder, sys.maxsize > 2**32)
print(getpass.getuser(), os.times().user >= 0, os.get_exec_path() != [])
print(*os.uname())
print(pwd.getpwuid(os.getuid()), pwd.getpwnam("nobody").pw_uid, grp.getgrgid(os.getgid()).gr_name, os.path.expanduser("~user"))
try:
    pwd.getpwnam("root")
except KeyError as error:
    print(error)
