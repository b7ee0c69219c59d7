# run: -uBs -X utf8 -W error::UserWarning options_without_effect.py
# argv: -u
import sys
import warnings

print(sys.argv)
try:
    warnings.warn("w")
except UserWarning as warning:
    print("raised", warning)
