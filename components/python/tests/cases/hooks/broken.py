import sys


def hook(kind, error, traceback):
    print("hook", traceback.tb_frame.f_code.co_name, traceback.tb_next)
    raise LookupError("in the hook")


sys.excepthook = hook
raise ValueError("x")
