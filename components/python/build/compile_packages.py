"""Compiles the packages, inside the very interpreter that will import them: a `.pyc` beside each source.

They hold good whatever the times of the files are (PEP 552, unchecked), as the folder is read-only where it is used, and copied about
before. This runs while componentize-py prepares a component, which is then thrown away. There, `/0` is the working folder.
"""

import os
import py_compile

# Where they will lie.
SHOWN = "/usr/lib/python3.14/site-packages"
SITE = "/0/site"

for folder, _, names in os.walk(SITE):
    for name in names:
        if name.endswith(".py"):
            path = f"{folder}/{name}"
            shown = SHOWN + path.removeprefix(SITE)
            py_compile.compile(path, dfile=shown, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)


class Run:
    def run(self):
        raise NotImplementedError
