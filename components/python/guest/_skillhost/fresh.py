"""Values that must differ between runs: the environment, randomness and clocks. They were captured when the component was built."""

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

from . import modes, system

# Looked up once: a start that uses fewer modules touches less memory.
RANDOM, LOGGING = random._inst, vars(logging)


def forget():
    """At build time: resets values that a program determines by chance."""
    uuid._node = None
    tempfile._name_sequence = tempfile.tempdir = None


def start():
    system.STARTED, system.IDLE = time.monotonic(), 0.0
    variables = {name.encode(): value.encode() for name, value in environment.get_environment()}
    os.environ._data.clear()
    os.environ._data.update(variables)
    # Like `random.seed()`, whose other effects are already in the image.
    _random.Random.seed(RANDOM)
    LOGGING["_startTime"] = time.time_ns()
    sys.argv[:] = sys.orig_argv[:] = environment.get_arguments()
    if directory := environment.initial_cwd():
        try:
            posix.chdir(directory)
        except OSError:
            # The folder is not granted. Code that needs it gets an error when it uses it.
            pass
    modes.start()
