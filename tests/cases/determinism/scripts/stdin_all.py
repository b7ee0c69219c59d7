import sys, hashlib
data = sys.stdin.buffer.read()
print(len(data), hashlib.sha256(data).hexdigest(), sys.stdin.isatty(), sys.stdout.isatty(), sys.stdin.buffer.read())
