import sys

# More than a pipe holds (64 KiB), in many writes.
for number in range(3000):
    print(number, "x" * 20)
sys.stdout.write("no newline at the end")
