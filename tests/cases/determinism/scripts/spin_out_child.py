# exit: 125
# fuel: 400000000
import subprocess, sys
code = "n = 0\nwhile True:\n  n += 1\n  if n % 2000 == 0: print(n, flush=True)"
running = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
print([p.wait() for p in running])
