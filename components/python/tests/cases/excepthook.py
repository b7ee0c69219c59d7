import sys

sys.excepthook = lambda kind, error, traceback: print("hook:", kind.__name__, error)
raise LookupError("x")
