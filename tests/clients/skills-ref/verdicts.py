"""Prints what skills-ref says about each folder on the command line, as one JSON object."""

import json
import sys
from pathlib import Path

from skills_ref import read_properties, validate


def verdict(folder: Path) -> dict:
    # A few inputs raise exceptions that the library does not define, such as UnicodeDecodeError.
    try:
        errors = validate(folder)
        properties = None if errors else read_properties(folder)
    except Exception as error:
        errors, properties = [f"{type(error).__name__}: {error}"], None
    return {
        "errors": errors,
        "name": properties and properties.name,
        "description": properties and properties.description,
    }


print(json.dumps({folder: verdict(Path(folder)) for folder in sys.argv[1:]}))
