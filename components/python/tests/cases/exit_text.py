# stderr: yes
import sys

print("before")
sys.exit("went wrong")
