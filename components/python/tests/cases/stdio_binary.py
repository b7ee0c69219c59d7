# stdin: "\u0000\u00ff\r\n"
import sys

data = sys.stdin.buffer.read()
sys.stdout.buffer.write(bytes(range(128)) + data)
sys.stdout.buffer.flush()
print("end")
