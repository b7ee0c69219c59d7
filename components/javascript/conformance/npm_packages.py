"""Imports and exercises the 100 most downloaded packages of npm that are pure JavaScript, in the sandbox and in Node.js 22.

    python3 components/javascript/conformance/npm_packages.py --packages DIR --node NODE --skillhost PATH [NAME...]

DIR is an installed copy of `tests/clients/npm-packages`, whose lock file pins the packages and what they depend on. `npm_packages.mjs` has an
exercise for each. A package works if its exercise has the same exit code and prints the same as in Node.js, where the code must be 0.

`npm_packages.txt` lists those that do not work, with reasons. A package that fails without a line there is an error, and so is a line whose
package works. At least 72 must work.
"""

import argparse
import difflib
import json
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
sys.path.insert(0, str(HERE.parent / "tests"))

import run  # noqa: E402

EXERCISES = HERE / "npm_packages.mjs"
REASONS = HERE / "npm_packages.txt"
SECTION = re.compile(r"^//// (.+)\n", re.MULTILINE)
GOAL = 72
# Seconds after which an exercise counts as hanging.
TIMEOUT = 60


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", required=True, type=pathlib.Path, metavar="DIR", help="the installed packages")
    parser.add_argument("--node", required=True, type=pathlib.Path, help="Node.js 22")
    parser.add_argument("--skillhost", required=True, type=pathlib.Path, metavar="PATH", help="the host")
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "target/components", help="the folder of built-in programs")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these packages")
    args = parser.parse_args()
    exercises = read_exercises(args.packages)
    if unknown := set(args.names) - exercises.keys():
        sys.exit(f"error: no such package: {', '.join(sorted(unknown))}")
    chosen = {name: text for name, text in exercises.items() if not args.names or name in args.names}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder).resolve()
        native = run_natively(chosen, place(chosen, args.packages, folder / "native"), args.node.resolve())
        here = run_sandboxed(chosen, place(chosen, args.packages, folder / "here"), args, folder)
    report(native, here, bool(args.names))


def read_exercises(packages):
    """Returns the exercises by the names of their packages, and checks that they are those that are pinned."""
    parts = SECTION.split(EXERCISES.read_text(encoding="utf-8"))[1:]
    exercises = dict(zip(parts[::2], parts[1::2]))
    pinned = json.loads((packages / "package.json").read_text(encoding="utf-8"))["dependencies"]
    if exercises.keys() != pinned.keys():
        sys.exit(f"error: package.json and {EXERCISES.name} differ in {', '.join(sorted(exercises.keys() ^ pinned.keys()))}")
    return exercises


def place(exercises, packages, folder):
    """Creates a folder with the packages, and one for each exercise below it."""
    run.shutil.copytree(packages / "node_modules", folder / "node_modules", copy_function=run.link, ignore=run.shutil.ignore_patterns(".bin"))
    run.shutil.copyfile(packages / "package.json", folder / "package.json")
    for name, text in exercises.items():
        path = folder / file_of(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def file_of(name):
    return f"{name.replace('@', '').replace('/', '-')}.mjs"


def run_natively(exercises, folder, node):
    environment = {"PATH": f"{node.parent}:/usr/bin:/bin", "HOME": str(folder), "TZ": "UTC", "LANG": "C.UTF-8"}
    results = {}
    for name in exercises:
        command = [node, file_of(name)]
        done = subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT)
        results[name] = (done.returncode, text(done.stdout, folder), text(done.stderr, folder))
    return results


# Runs the exercises one after another, so that they share one start of the host.
LAUNCHER = """
import json, subprocess, sys

for file in sys.argv[1:]:
    try:
        done = subprocess.run(["node", file], stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT)
        result = [done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")]
    except subprocess.TimeoutExpired:
        result = ["timeout", "", ""]
    print(json.dumps(result), flush=True)
"""


def run_sandboxed(exercises, workspace, args, folder):
    skill = folder / "npm-packages"
    (skill / "scripts").mkdir(parents=True)
    (skill / "SKILL.md").write_text(run.SKILL.replace("javascript-cases", skill.name))
    (skill / "scripts/launch.py").write_text(LAUNCHER.replace("TIMEOUT", str(TIMEOUT), 1))
    (folder / "policy.yaml").write_text(run.POLICY.replace("timeout: 10m", "timeout: 30m, stdout: 64MiB"))
    options = [f"--workspace={workspace}", f"--audit={folder}/audit.jsonl", f"--policy={folder}/policy.yaml", f"--programs={args.programs}"]
    command = [args.skillhost, "run", *options, skill, "--", *map(file_of, exercises)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    if len(results) != len(exercises):
        sys.exit(f"error: the run ended after {len(results)} packages: {done.stderr}")
    shown = lambda result: (result[0], *(part.replace("/workspace", "FOLDER") for part in result[1:]))
    return dict(zip(exercises, map(shown, results)))


def text(output, folder):
    return output.decode("utf-8", "replace").replace(str(folder), "FOLDER")


def reasons():
    lines = REASONS.read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))


def report(native, here, is_partial):
    known = reasons()
    failed, works = [], 0
    for name, expected in native.items():
        if expected[0] != 0:
            print(f"--- {name} fails in Node.js: {expected[2]}")
            failed.append(name)
            continue
        same = here[name][:2] == expected[:2]
        works += same
        if same and name in known:
            print(f"--- {name} works: remove it from {REASONS.name}")
        elif not same and (is_partial or name not in known):
            print(f"--- {name}: exit {here[name][0]}")
            print("".join(difflib.unified_diff(expected[1].splitlines(True), here[name][1].splitlines(True), "Node.js", "here")))
            print(here[name][2])
        if same == (name in known):
            failed.append(name)
    unknown = sorted(known.keys() - read_names())
    print(f"{works} of {len(native)} packages work as in Node.js 22; {len(failed)} of them unexpected")
    if unknown:
        print(f"{REASONS.name} lists unknown packages: {', '.join(unknown)}")
    sys.exit(1 if failed or unknown or (not is_partial and works < GOAL) else 0)


def read_names():
    return set(SECTION.findall(EXERCISES.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
