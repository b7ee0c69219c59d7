import sys
def deep(n):
    try:
        return deep(n + 1)
    except RecursionError:
        return n
print(deep(0), sys.getrecursionlimit())
