# sandbox: a native python3 may have them
import importlib.util

for name in ("numpy", "pandas", "ctypes", "fcntl", "curses", "no_such_module"):
    try:
        __import__(name)
    except ImportError as error:
        print(type(error).__name__, error.name, error)
print(importlib.util.find_spec("numpy"), importlib.util.find_spec("json") is not None)
