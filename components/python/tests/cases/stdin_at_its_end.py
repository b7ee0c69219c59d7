import sys

print(repr(sys.stdin.read()), sys.stdin.isatty(), sys.stdout.isatty())
try:
    input("prompt> ")
except EOFError as error:
    print(repr(error))
