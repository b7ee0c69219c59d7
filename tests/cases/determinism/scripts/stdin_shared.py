import subprocess, os
print(os.read(0, 3), flush=True)
subprocess.run(["head", "-n", "2"])
subprocess.run(["bash", "-c", "read -r line; echo got \"$line\"; wc -c"])
