# sandbox: the packages are those that come with it
"""A program that has imported large packages comes to its end, and its own objects are let go."""

import jsonschema
import openpyxl
import requests
import yaml


class Last:
    def __del__(self):
        print("gone")


last = Last()
print(jsonschema.validate({"a": 1}, {"type": "object"}), yaml.safe_load("[1]"), requests.codes.ok, openpyxl.Workbook().sheetnames)
