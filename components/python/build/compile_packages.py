"""Compiles the packages with the same interpreter that imports them, to a `.pyc` next to each source.

The `.pyc` files are valid regardless of modification times (PEP 552, unchecked), because the folder is copied during the build and is
read-only in the guest. This script runs while componentize-py prepares a component, which is then discarded. `/0` is the working folder.
"""

import os
import py_compile

# The path of the packages in the guest, for tracebacks.
GUEST_SITE = "/usr/lib/python3.14/site-packages"
SITE = "/0/site"

for folder, _, names in os.walk(SITE):
    for name in names:
        if name.endswith(".py"):
            path = f"{folder}/{name}"
            guest_path = GUEST_SITE + path.removeprefix(SITE)
            py_compile.compile(path, dfile=guest_path, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)


class Run:
    def run(self):
        raise NotImplementedError
