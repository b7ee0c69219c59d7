# env: SKILLHOST_SITE_PACKAGES=/workspace/fake_packages:/no/such/folder
# sandbox: the variable is the sandbox's own
import subprocess
import sys

import known

print(known.VALUE, [path for path in sys.path if "fake" in path or "no/such" in path])
for words in (["known"], ["known>=1.0,<2", "known[extra]~=1.2"], ["known==1.2.*"], ["known>=2"], ["known==1.2.4"], ['known; python_version > "3"']):
    done = subprocess.run([sys.executable, "-m", "pip", "install", *words], capture_output=True, text=True)
    print(words, done.returncode, done.stdout + done.stderr)
print(subprocess.run([sys.executable, "-m", "pip", "list"], capture_output=True, text=True).stdout)
print(subprocess.run([sys.executable, "-m", "pip", "show", "known"], capture_output=True, text=True).stdout)
print(subprocess.run([sys.executable, "-m", "pip", "freeze"], capture_output=True, text=True).stdout)
