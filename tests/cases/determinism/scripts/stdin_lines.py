import sys, os, select
print(os.read(0, 4), os.read(0, 5))
for number, line in enumerate(sys.stdin):
    print(number, repr(line))
