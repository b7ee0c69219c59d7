"""Runs inside the sandbox: starts the commands of a file one after another, and writes how each ended.

    launch.py JOBS RESULTS

JOBS is a JSON list of commands: `name`, `words`, `env`, `folder` and `timeout`. RESULTS gets a line of JSON for each that ended.
"""

import json
import os
import subprocess
import sys
import time

# The characters of stdout and of stderr that are kept: their ends.
KEPT = 4000


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        jobs = json.load(file)
    with open(sys.argv[2], "w", encoding="utf-8") as results:
        for job in jobs:
            results.write(json.dumps(run(job)) + "\n")
            results.flush()


def run(job):
    environment = {**os.environ, **job["env"]}
    start = time.monotonic()
    try:
        done = subprocess.run(
            ["node", *job["words"]], cwd=job["folder"], env=environment, timeout=job["timeout"], stdin=subprocess.DEVNULL, capture_output=True
        )
        code, stdout, stderr = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        code, stdout, stderr = "timeout", late.stdout, late.stderr
    seconds = round(time.monotonic() - start, 3)
    return {"name": job["name"], "code": code, "stdout": end(stdout), "stderr": end(stderr), "seconds": seconds}


def end(output):
    return (output or b"")[-KEPT:].decode("utf-8", "replace")


if __name__ == "__main__":
    main()
