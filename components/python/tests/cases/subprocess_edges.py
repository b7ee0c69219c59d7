import os
import selectors
import subprocess
import sys
import warnings

PYTHON = sys.executable


def told(work):
    try:
        print(work())
    except Exception as error:
        print(type(error).__name__)


print(os.spawnv(os.P_WAIT, PYTHON, [PYTHON, "-c", "raise SystemExit(7)"]))
number = os.spawnl(os.P_NOWAIT, PYTHON, PYTHON, "-c", "raise SystemExit(3)")
print(os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]))
given = {**os.environ, "CODE": "5"}
print(os.spawnle(os.P_WAIT, PYTHON, PYTHON, "-c", "import os; raise SystemExit(int(os.environ['CODE']))", given))
told(lambda: os.spawnv(os.P_WAIT, PYTHON, []))
told(lambda: os.execv(PYTHON, []))
told(lambda: os.execv(PYTHON, [""]))
told(lambda: subprocess.run([PYTHON, "-c", ""], env={**os.environ, "A=B": "1"}))
reader, writer = os.pipe()
print(os.path.exists(reader))
os.close(reader)
os.close(writer)
print(os.sysconf("SC_OPEN_MAX") > 100)

subprocess._PopenSelector = selectors.SelectSelector
echo = [PYTHON, "-c", "import sys; sys.stdout.write(sys.stdin.read().upper()); sys.stderr.write('told')"]
print(subprocess.run(echo, input=b"by select", capture_output=True).stdout)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    with subprocess.Popen([PYTHON, "-c", ""], stdin=subprocess.PIPE, bufsize=1):
        pass
print([one.category.__name__ for one in seen])
print(sys._base_executable == PYTHON, __loader__.__class__.__name__)
