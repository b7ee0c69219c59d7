import subprocess
import sys

kind, count = sys.argv[1], int(sys.argv[2])
command = {"python": [sys.executable, "-c", "pass"], "bash": ["bash", "-c", ":"]}[kind]
for _ in range(count):
    subprocess.run(command, check=True)
