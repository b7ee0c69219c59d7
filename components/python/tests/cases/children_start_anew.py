# One after the other, more than the first few, which are given memory in another way than those after them; then more at once than are kept.
import subprocess
import sys

LOOK = """
import builtins, json, os
print(getattr(builtins, "left", None), getattr(json, "left", None), os.environ.get("LEFT"))
builtins.left = json.left = os.environ["LEFT"] = "behind"
data = bytearray(b"behind" * 1_000_000)
"""
for _ in range(8):
    subprocess.run([sys.executable, "-c", LOOK], check=True)

crowd = [subprocess.Popen(["bash", "-c", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(6)]
print([child.communicate(str(n).encode())[0] for n, child in enumerate(crowd)])
