from . import NAME
from .sub import deep
import sys
print("main of", NAME, deep.X, sys.argv[1:], __name__, __package__)
