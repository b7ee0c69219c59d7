"""Measures the time to import each package in the sandbox, compared with native CPython and the same packages.

    python3 components/python/tests/import_cost.py --skillhost PATH --native python3.14 [--runs 15] [NAME...]

Each import is timed inside a fresh interpreter, native and sandboxed alternately, and the median is printed. Both find compiled files.
This is a measurement, not a test: it never fails.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import tempfile

import run

PROGRAM = """import sys, time
start = time.perf_counter()
__import__(sys.argv[1])
print(time.perf_counter() - start)
"""
SKILL = "---\nname: import-cost\ndescription: Imports one module.\nallowed-tools: Read\n---\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skillhost", required=True, metavar="PATH")
    parser.add_argument("--native", required=True, metavar="PYTHON")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("names", nargs="*", help="only these modules")
    args = parser.parse_args()
    listed = json.loads((run.PACKAGES.parent / "python-packages.json").read_text())
    names = args.names or [name for one in listed for name in one["imports"] if not name.startswith("_")]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        native = {"PYTHONPATH": str(compiled(args.native, folder / "packages"))}
        script = folder / "import-cost/scripts/cost.py"
        script.parent.mkdir(parents=True)
        script.write_text(PROGRAM)
        (folder / "import-cost/SKILL.md").write_text(SKILL)
        (folder / "policy.yaml").write_text("default: { allow: [Read] }\n")
        options = [f"--policy={folder}/policy.yaml", f"--audit={folder}/audit.jsonl"]
        print(f"{'ms':<24}{'native':>8}{'sandbox':>8}{'ratio':>8}")
        for name in names:
            there, here = [], []
            for _ in range(args.runs):
                there.append(timed([args.native, script, name], native))
                here.append(timed([args.skillhost, "run", *options, script.parent.parent, "scripts/cost.py", "--", name], None))
            one, other = statistics.median(there) * 1000, statistics.median(here) * 1000
            print(f"{name:<24}{one:>8.1f}{other:>8.1f}{other / one:>8.2f}", flush=True)


def compiled(python, folder):
    shutil.copytree(run.PACKAGES, folder, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([python, "-W", "ignore", "-m", "compileall", "-q", folder], check=True)
    return folder


def timed(command, environment):
    return float(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)


if __name__ == "__main__":
    main()
