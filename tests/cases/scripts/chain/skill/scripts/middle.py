import argparse
import os
import subprocess
import sys
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--upper", action="store_true")
args = parser.parse_args()
text = sys.stdin.read()
env = {**os.environ, "DEPTH": str(int(os.environ["DEPTH"]) + 1)}
leaf = Path(__file__).with_name("leaf.sh")
done = subprocess.run(["bash", str(leaf), "2"], input=text, env=env, text=True, stdout=subprocess.PIPE)
print("leaf said", done.returncode)
print(done.stdout.upper() if args.upper else done.stdout, end="")
print("mitte fertig ✓", file=sys.stderr)
sys.exit(done.returncode + 1)
