import sys

for number in range(20000):
    print(number, "x" * 20)
sys.stdout.write("no newline at the end")
