import mmap
import os
import resource
import subprocess
import sys

import psutil

block = bytearray(5 << 20)
with open("/tmp/f", "wb") as file:
    file.write(bytes(9000))
os.chmod("/tmp/f", 0o751)
with open("/tmp/f", "r+b") as file, mmap.mmap(file.fileno(), 0) as view:
    view[0] = 1
print(psutil.virtual_memory(), psutil.disk_usage("/"), psutil.cpu_times())
print(psutil.Process().memory_info(), resource.getrusage(resource.RUSAGE_SELF), os.stat("/tmp/f"))
used = "import psutil; print(psutil.virtual_memory().used)"
print(subprocess.run([sys.executable, "-c", used], capture_output=True, text=True).stdout)
