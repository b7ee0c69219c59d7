import json
import sys

lines = sys.stdin.read().splitlines()
json.dump({"lines": len(lines), "characters": sum(map(len, lines))}, sys.stdout)
