import os, platform, socket, sys, getpass, locale
print(os.getpid(), os.getppid(), os.getuid(), os.getcwd(), os.cpu_count(), os.uname(), socket.gethostname(), platform.platform())
print(sorted(os.environ.items()), getpass.getuser(), locale.getlocale(), sys.argv, sys.path, sys.executable, sys.maxsize)
