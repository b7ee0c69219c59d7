import argparse
import os
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--lower", action="store_true")
args = parser.parse_args()
mark = os.environ["CLEAN_MARK"]
for line in sys.stdin:
    line = line.strip()
    if line:
        print(mark, line.lower() if args.lower else line)
print("cleaned", file=sys.stderr)
