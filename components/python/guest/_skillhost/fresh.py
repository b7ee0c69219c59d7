"""What must not be the same in every run: the environment, chance, clocks. All of it was taken when the component was built."""

import _random
import logging
import os
import posix
import random
import sys
import tempfile
import time
import uuid

from wit_world.imports import environment

from . import system

# Taken once: a start that looks into fewer modules touches less memory.
CHANCE, LOGGING = random._inst, vars(logging)


def forget():
    """At the build: what a program finds out by chance has not been found out yet."""
    uuid._node = None
    tempfile._name_sequence = tempfile.tempdir = None


def start():
    system.STARTED = time.monotonic()
    variables = {name.encode(): value.encode() for name, value in environment.get_environment()}
    os.environ._data.clear()
    os.environ._data.update(variables)
    # As `random.seed()`: what that does beside it is done in the image.
    _random.Random.seed(CHANCE)
    LOGGING["_startTime"] = time.time_ns()
    sys.argv[:] = sys.orig_argv[:] = environment.get_arguments()
    if directory := environment.initial_cwd():
        try:
            posix.chdir(directory)
        except OSError:
            # A folder that is not granted. Whatever needs it says so when it is used.
            pass
