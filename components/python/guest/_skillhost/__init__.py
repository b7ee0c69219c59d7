"""The runtime's own code: what turns CPython in a component into the command `python3`."""
