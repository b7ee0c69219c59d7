"""What stays out of a package."""
from fnmatch import fnmatch

EXCLUDED_NAMES = {".DS_Store", "__pycache__", ".git"}
EXCLUDED_GLOBS = ["*.pyc", "*.skill"]


def should_exclude(path):
    return any(part in EXCLUDED_NAMES for part in path.parts) or any(fnmatch(path.name, g) for g in EXCLUDED_GLOBS)
