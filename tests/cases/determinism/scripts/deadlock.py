# exit: 134
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read(); print('never')"], stdin=subprocess.PIPE)
print("waits for one that waits for it", flush=True)
child.wait()
