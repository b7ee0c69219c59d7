import importlib
import sys

try:
    import tomllib
except ImportError:
    import tomli as tomllib

try:
    import ujson as json
except ImportError:
    import json

try:
    import lxml.etree
except ImportError:
    lxml = None

try:
    import regex
except ModuleNotFoundError:
    import mystery as regex

try:
    import docx
except ImportError:
    sys.exit("pip install python-docx")

charset = importlib.import_module("chardet") if "x" in sys.argv else None
