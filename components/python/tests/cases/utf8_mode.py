import locale
import sys

print(sys.flags.utf8_mode, type(sys.flags).__name__, sys.flags.optimize, sys.flags[0], len(sys.flags))
print(locale.getpreferredencoding(False), locale.getpreferredencoding())
