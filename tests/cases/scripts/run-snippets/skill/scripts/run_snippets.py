#!/usr/bin/env python3
"""Runs the code blocks of a Markdown file, and writes what they print below them."""
import argparse
import os
import re
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"```(python|bash)\n(.*?)```\n(?:\n```output\n.*?```\n)?", re.DOTALL)
RUN = {"python": [sys.executable, "-"], "bash": ["bash", "-s"]}


def run(language, code):
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(RUN[language], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=os.environ.copy())
        output, _ = process.communicate(code)
        errors.seek(0)
        return process.returncode, output, errors.read()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--update", action="store_true")
    args = parser.parse_args()
    with open(args.file) as f:
        text = f.read()

    def replace(match):
        code, output, errors = run(match[1], match[2])
        print(f"{match[1]:<7} exit {code}, {len(output)} characters, stderr {errors!r}")
        return f"```{match[1]}\n{match[2]}```\n\n```output\n{output}```\n"

    new = BLOCK.sub(replace, text)
    if args.update and new != text:
        with open(args.file, "w") as f:
            f.write(new)
        print("✎ updated")


if __name__ == "__main__":
    main()
