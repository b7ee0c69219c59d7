# env: GREETING=hallo EMPTY=
import os

print(os.environ["GREETING"], os.environ.get("EMPTY"), os.getenv("NOT_SET", "default"), "PYTHONHOME" in os.environ)
os.environ["NEW"] = "1"
print(os.getenv("NEW"), os.path.expandvars("$GREETING"))
