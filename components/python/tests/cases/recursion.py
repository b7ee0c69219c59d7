import json
import sys


def down(n):
    return down(n + 1)


try:
    down(0)
except RecursionError as error:
    print(type(error).__name__)


class Deep:
    def __getattr__(self, name):
        return getattr(self, name + "x")


for work in (lambda: Deep().a, lambda: json.loads("[" * 200000), lambda: eval("(" * 300 + ")" * 300), lambda: compile("-" * 20000 + "1", "x", "eval")):
    try:
        work()
        print("no error")
    except (RecursionError, MemoryError, SyntaxError) as error:
        print(type(error).__name__ in ("RecursionError", "MemoryError", "SyntaxError"))
nested = []
for _ in range(100000):
    nested = [nested]
try:
    repr(nested)
except RecursionError:
    print("repr")
