# stdin: "one\nzwei ä\nthree"
import sys

print(input())
for line in sys.stdin:
    print(repr(line))
