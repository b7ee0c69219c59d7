# stderr: yes
import logging
import sys

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s", stream=sys.stdout)
logging.info("to stdout %d", 1)
logging.getLogger("x").debug("not shown")
logging.getLogger("y").handlers or logging.getLogger("y").warning("shown")
print("to stderr", file=sys.stderr)
