import subprocess, sys
inner = "import random, os, time; print(random.random(), os.getpid(), time.time(), hash('x'))"
for _ in range(3):
    print(subprocess.run([sys.executable, "-c", inner], capture_output=True, text=True))
print(subprocess.check_output("echo $RANDOM | tee /dev/stderr; python3 -c 'import os; print(os.urandom(4))'", shell=True, stderr=subprocess.STDOUT))
