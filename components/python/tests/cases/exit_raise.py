# stderr: yes
import atexit

atexit.register(print, "first registered, last called")
atexit.register(print, "last registered, first called")
try:
    raise SystemExit(7)
finally:
    print("finally")
