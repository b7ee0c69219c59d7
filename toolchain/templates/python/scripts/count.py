"""Counts the lines, words and characters of a text."""

import argparse
import sys


def count(text: str) -> str:
    """Return the three numbers as a sentence."""
    return f"{len(text.splitlines())} lines, {len(text.split())} words, {len(text)} characters"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", help="the text [default: standard input]")
    path = parser.parse_args().file
    try:
        if path is None:
            text = sys.stdin.read()
        else:
            with open(path, encoding="utf-8") as file:
                text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        print(f"count.py: {error}", file=sys.stderr)
        return 2
    print(count(text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
