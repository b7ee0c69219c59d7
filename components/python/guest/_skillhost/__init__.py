"""The runtime's own code: it turns CPython in a component into the command `python3`."""
