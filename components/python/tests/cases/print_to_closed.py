import io
import sys

old, sys.stdout = sys.stdout, io.StringIO()
print("kept")
text, sys.stdout = sys.stdout.getvalue(), old
print(repr(text))
sys.stdout.close()
