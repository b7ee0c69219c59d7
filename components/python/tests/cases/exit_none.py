# stderr: yes
import sys

print("before")
sys.exit()
