# argv: a 'b c' --x=1 -- é ''
import sys

print(sys.argv, len(sys.argv), __name__, __file__)
