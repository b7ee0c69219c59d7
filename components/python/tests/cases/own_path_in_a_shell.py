"""`sys.executable` in a command line for the shell."""

import subprocess
import sys

done = subprocess.run(f"{sys.executable} -c 'print(6 * 7)' | tr 2 3", shell=True, capture_output=True, text=True)
print(done.returncode, done.stdout, done.stderr)
print(subprocess.getoutput("/usr/bin/env python3 -c 'print(1)'"))
