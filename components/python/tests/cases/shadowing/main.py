import email.message
import logging
import json
import os
import statistics

logging.getLogger("x").addHandler(logging.NullHandler())
print(json.OURS, os.path.basename(json.__file__), statistics.mean([1, 3]), email.message.Message.__name__)
