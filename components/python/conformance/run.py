"""Runs CPython's own tests in the sandbox, module by module.

    python3 components/python/conformance/run.py --skillhost target/debug/skillhost [--json] [MODULE...]

`modules.txt` names the modules. `reasons.txt` says which tests cannot pass, and why:

    # the reason, for all lines up to the next one
    test_os.ForkTests.*        is run, and fails or passes
    ! test_os.SlowTests.*      is not run: it would take the whole module down, or all of its time

What fails without a reason makes the exit code 1, as does a module that does not come to its end, and a line of `reasons.txt` whose tests
all pass by now. (Which lines those are is only known when all modules ran.)
"""

import argparse
import collections
import dataclasses
import fnmatch
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import suite

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
# One invocation each: a module that needs more is reported as one that did not come to its end.
LIMITS = "{ stack: 128MiB, timeout: 10m, memory: 1GiB, disk: 1GiB, files: 50000, random: 256MiB, processes: 10000 }"
TIMED_OUT = "exit 124"
MOST_CRASHES = 8
POLICY = """limits: {limits}
default:
  allow: [Read, Write, Bash]
  mounts:
    - {{ host: {tests}, guest: /conformance, mode: read }}
"""
SKILL = """---
name: conformance
description: Runs CPython's own tests.
allowed-tools: Read Write Bash
---
"""


@dataclasses.dataclass
class Reason:
    glob: str
    why: str
    run: bool
    used: bool = False


@dataclasses.dataclass
class Module:
    name: str
    passed: int = 0
    # (test, the end of its traceback)
    failed: list = dataclasses.field(default_factory=list)
    # reason -> how many tests: those of reasons.txt, run or not, and what the tests themselves say.
    listed: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    skipped: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    # How it ended before its end.
    broken: str = ""
    seconds: float = 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skillhost", required=True, type=pathlib.Path, metavar="PATH", help="the host")
    parser.add_argument("--testsuite", type=pathlib.Path, metavar="DIR", help="a folder with CPython's `test` package, instead of Debian's")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="only these")
    args = parser.parse_args()
    known = [line for line in (HERE / "modules.txt").read_text().split("\n") if line and not line.startswith("#")]
    if unknown := set(args.modules) - set(known):
        sys.exit(f"error: not in modules.txt: {', '.join(sorted(unknown))}")
    reasons = read_reasons((HERE / "reasons.txt").read_text(encoding="utf-8"))
    version, tests = ("of your own", args.testsuite) if args.testsuite else suite.fetch(ROOT / "target/conformance")
    with tempfile.TemporaryDirectory() as folder:
        host = Host(args.skillhost.resolve(), tests.resolve(), pathlib.Path(folder), reasons)
        modules = run_all(host, args.modules or known, reasons)
    unused = [] if args.modules else [reason.glob for reason in reasons if reason.run and not reason.used]
    if args.json:
        facts = {"tests": version, "modules": [vars(module) for module in modules], "reasons_without_a_test": unused}
        print(json.dumps(facts, indent=2))
    else:
        summarise(modules, version, unused)
    sys.exit(1 if unused or any(module.failed or module.broken for module in modules) else 0)


def read_reasons(text):
    reasons, why = [], ""
    for line in text.splitlines():
        if line.startswith("#"):
            why = line[1:].strip()
        elif line.strip():
            reasons.append(Reason(line.removeprefix("! "), why, not line.startswith("! ")))
    return reasons


class Host:
    def __init__(self, skillhost, tests, folder, reasons):
        self.skillhost, self.folder = skillhost, folder
        self.skill = folder / "conformance"
        (self.skill / "scripts").mkdir(parents=True)
        (self.skill / "SKILL.md").write_text(SKILL)
        shutil.copy(HERE / "inside.py", self.skill / "scripts")
        (self.skill / "not-run.json").write_text(json.dumps([reason.glob for reason in reasons if not reason.run]))
        (folder / "policy.yaml").write_text(POLICY.format(limits=LIMITS, tests=json.dumps(str(tests))))

    def run(self, name, without):
        """The records of a module's tests, save those without; how the run ended if not well, and the test under way then."""
        workspace = self.folder / name
        workspace.mkdir()
        options = [f"--policy={self.folder}/policy.yaml", f"--workspace={workspace}", f"--audit={self.folder}/audit.jsonl"]
        command = [self.skillhost, "run", *options, "--env=PYTHONPATH=/conformance", self.skill, "scripts/inside.py", "--", name, *without]
        done = subprocess.run(command, capture_output=True, check=False)
        results = workspace / "results.jsonl"
        records = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()] if results.is_file() else []
        shutil.rmtree(workspace, ignore_errors=True)
        if records and records[-1].get("end"):
            return records, "", None
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-3:]
        return records, f"exit {done.returncode}: {' / '.join(last)}", records[-1].get("start") if records else None


def run_all(host, names, reasons):
    modules = []
    for at, name in enumerate(names, 1):
        module = run_one(host, name, reasons)
        modules.append(module)
        state = module.broken or f"{module.passed} passed, {len(module.failed)} failed"
        print(f"[{at}/{len(names)}] {module.name}: {state}, {module.seconds:.0f} s", file=sys.stderr, flush=True)
    return modules


def run_one(host, name, reasons):
    module, start = Module(name), time.monotonic()
    crashed = {}
    while True:
        records, module.broken, test = host.run(name, list(crashed))
        if not module.broken or test is None or module.broken.startswith(TIMED_OUT) or len(crashed) == MOST_CRASHES:
            break
        # One test that ends the program says nothing of the others.
        crashed[test] = module.broken
    if module.broken and test:
        module.broken = f"{test}: {module.broken}"
    module.seconds = round(time.monotonic() - start, 1)
    for record in records:
        outcome, test = record.get("outcome"), record.get("id", "")
        if outcome == "passed":
            module.passed += 1
        elif outcome == "skipped":
            module.skipped[record["why"]] += 1
        elif outcome:
            reason = next((reason for reason in reasons if fnmatch.fnmatchcase(test, reason.glob)), None)
            if reason is None:
                module.failed.append((test, crashed.get(test, record["why"])))
            else:
                reason.used = True
                module.listed[reason.why] += 1
    return module


def summarise(modules, version, unused):
    print(f"CPython's tests, {version}\n\n{'module':<34}{'passed':>8}{'failed':>8}{'listed':>8}{'skipped':>8}")
    for module in modules:
        listed, skipped = module.listed.total(), module.skipped.total()
        print(f"{module.name:<34}{module.passed:>8}{len(module.failed):>8}{listed:>8}{skipped:>8}{'  ' + module.broken if module.broken else ''}")
    total = [sum(column) for column in zip(*((m.passed, len(m.failed), m.listed.total(), m.skipped.total()) for m in modules))]
    print(f"{'all ' + str(len(modules)):<34}" + "".join(f"{number:>8}" for number in total))
    for title, counters in (("Listed in reasons.txt", [m.listed for m in modules]), ("Skipped by the tests", [m.skipped for m in modules])):
        counts = sum(counters, collections.Counter())
        if counts:
            print(f"\n{title}:")
            for why, count in counts.most_common():
                print(f"{count:>6}  {why}")
    for module in modules:
        for test, why in module.failed:
            print(f"\n--- {test}\n{why}")
    for glob in unused:
        print(f"\nevery test of this line of reasons.txt passes: {glob}")


if __name__ == "__main__":
    main()
