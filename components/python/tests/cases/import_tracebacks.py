# sandbox: a native python3 has the modules
import traceback

for name in ("numpy", "curses"):
    try:
        __import__(name)
    except ImportError:
        print(traceback.format_exc())
