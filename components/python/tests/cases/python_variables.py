# env: PYTHONIOENCODING=latin-1:replace PYTHONWARNINGS=ignore::UserWarning
# run: -W error::DeprecationWarning -X frozen_modules=on python_variables.py
import sys
import warnings

print("grün €", sys.stdout.errors, sys.stderr.errors)
print(sys.warnoptions, sys._xoptions.get("frozen_modules"))
warnings.warn("not seen", UserWarning)
try:
    warnings.warn("seen", DeprecationWarning)
except DeprecationWarning as error:
    print("raised", error)
print(sys.orig_argv[1:])
