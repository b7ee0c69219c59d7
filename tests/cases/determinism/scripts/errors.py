# exit: 7
import traceback, sys, threading
def fail(depth):
    return object() + depth if depth == 0 else fail(depth - 1)
try:
    fail(3)
except TypeError:
    traceback.print_exc()
t = threading.Thread(target=fail, args=(2,)); t.start(); t.join()
print(repr(open).strip(), file=sys.stderr)
raise SystemExit(7)
