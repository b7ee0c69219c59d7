# needs: sh
import os
import shutil
import subprocess

print(os.system("exit 3") >> 8, os.system("true"))
print(os.popen("echo from popen").read(), os.popen("exit 2").close())
print(subprocess.getoutput("echo x; echo y"), subprocess.getstatusoutput("exit 3"))
done = subprocess.run("echo out; echo err >&2; exit 4", shell=True, capture_output=True, text=True)
print(done)
print(subprocess.run("cat | tr a-z A-Z", shell=True, input="piped", capture_output=True, text=True).stdout)
print(subprocess.run("no-such-command-here", shell=True, stderr=subprocess.DEVNULL).returncode)
print(subprocess.check_output(["sh", "-c", 'echo "$0 $1"', "zero", "one"], text=True))
print(shutil.which("no-such-command-here"))
