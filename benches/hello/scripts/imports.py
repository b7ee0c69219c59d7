import argparse
import csv
import datetime
import json
import pathlib
import re

parser = argparse.ArgumentParser()
parser.add_argument("name", nargs="?", default="hello")
print(json.dumps([parser.parse_args().name, pathlib.Path("a/b").name, bool(re.match("h", "hello")), csv.excel.delimiter, datetime.date(2024, 10, 10).isoformat()]))
