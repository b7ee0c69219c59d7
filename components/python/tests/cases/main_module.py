import pickle
import sys


class Thing:
    def __init__(self, x):
        self.x = x


print(pickle.loads(pickle.dumps(Thing(3))).x, sys.modules["__main__"].Thing is Thing, __builtins__ is not None, __spec__, __doc__)
print([n for n in ("__file__", "__cached__", "__loader__", "__package__") if n in globals()])
