# sandbox: a sandbox cannot install packages, and says so
import subprocess
import sys


def pip(*words):
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True)
    print(words, done.returncode)
    print(done.stdout + done.stderr)


pip("pip", "install", "numpy", "left-pad==1.0")
pip("pip", "install", "-q")
with open("requirements.txt", "w") as file:
    file.write("# what it needs\nnumpy>=1.20  # fast\n-r more.txt\n")
with open("more.txt", "w") as file:
    file.write("opencv-python\n")
pip("pip", "install", "-r", "requirements.txt", "--break-system-packages", "--user")
pip("pip", "install", "-r", "missing.txt")
pip("pip", "show", "numpy")
pip("pip", "uninstall", "-y", "x")
pip("venv", ".venv")
pip("ensurepip")
