# stderr: yes
import sys

print("before")
sys.exit(0)
