import sys

print("ready", flush=True)
sys.stdin.read()
