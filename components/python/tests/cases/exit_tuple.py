# stderr: yes
import sys

print("before")
sys.exit(("a", 1))
