# What is still to be done with other programs when a program ends.
import atexit
import os
import subprocess
import sys

if sys.argv[1:] == ["inner"]:
    atexit.register(lambda: (process.kill(), print("killed", process.wait())))
    with open("late.log", "w") as log:
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.3); print('late', flush=True)"], stdout=log)
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
else:
    print(subprocess.check_output([sys.executable, "subprocess_at_exit.py", "inner"], text=True))
    while not os.path.getsize("late.log"):
        pass
    print(open("late.log").read())
