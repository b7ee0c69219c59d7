import atexit
import sys


def fail():
    raise ValueError("late")


atexit.register(print, "still called")
atexit.register(fail)
sys.exit(3)
