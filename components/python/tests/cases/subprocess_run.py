import os
import subprocess
import sys
from subprocess import DEVNULL, PIPE, STDOUT, CalledProcessError, TimeoutExpired, call, check_call, check_output, run

PY = sys.executable


def py(code, *args):
    return [PY, "-c", code, *args]


done = run(py("print('hi')"), capture_output=True, text=True)
print(type(done).__name__, done.args[1:], done.returncode, repr(done.stdout), repr(done.stderr))
print(run(py("print('hi')"), capture_output=True, text=True).stdout == "hi\n")
print(check_output(py("import sys; sys.stdout.write(sys.stdin.read()[::-1])"), input=b"abc"))
print(check_output(py("import sys; print(sys.argv[1:])", "a b", "é", ""), text=True))
try:
    check_call(py("raise SystemExit(3)"))
except CalledProcessError as error:
    print(error.returncode, error.cmd[1:])
print(call(py("")), call(py("import sys; sys.exit(200)")))
print(run(py("import sys; print('out', flush=True); print('err', file=sys.stderr)"), stdout=PIPE, stderr=STDOUT, text=True).stdout)
done = run(py("import sys; print('out'); print('err', file=sys.stderr); sys.exit(4)"), capture_output=True)
print(done.returncode, done.stdout, done.stderr)
print(run(py("print(1)"), stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL).returncode)
print(run(py("import sys; print(repr(sys.stdin.read()))"), stdin=DEVNULL, stdout=PIPE, text=True).stdout)
print(run(py("import os; print(os.environ['A'], os.environ.get('B'), os.getcwd())"), env={**os.environ, "A": "1"}, cwd="/", stdout=PIPE).stdout)
print(run(py("print('é€')"), capture_output=True, encoding="utf-8").stdout, run(py("print('a\\r\\nb')"), stdout=PIPE, universal_newlines=True).stdout)
print(run(py("import sys; sys.stdout.buffer.write(b'\\xff\\xfe')"), stdout=PIPE, encoding="utf-8", errors="replace").stdout)
try:
    run(py("import time; print('part', flush=True); time.sleep(100)"), stdout=PIPE, timeout=3)
except TimeoutExpired as error:
    print("timed out after", error.timeout, error.stdout)
try:
    run(["no-such-program", "x"])
except FileNotFoundError as error:
    print(error.errno, error.strerror, error.filename)
try:
    run(py(""), cwd="/no/such/folder")
except FileNotFoundError as error:
    print(error.errno, error.filename)
try:
    run(py("raise ValueError('told')"), check=True, stderr=PIPE, text=True)
except CalledProcessError as error:
    print(error.stderr.splitlines()[-1])
sys.stdout.flush()
run(py("print('straight through')"), check=True)
print(run(py(""), start_new_session=True, close_fds=True).returncode)
