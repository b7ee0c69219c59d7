"""Runs Node.js 22's own tests in the sandbox, each in a guest of its own.

    python3 components/javascript/conformance/node.py --skillhost PATH --suite DIR [--list] [NAME...]

DIR is the folder `test` of Node.js 22, or its parent. NAME is a module (`fs`) or a test (`test-fs-stat`).

`node-modules.txt` selects the tests of `parallel`: by their names, and without those that cannot say anything about a sandbox. The selected ones
are in `node-inventory.txt`. A test passes if it exits with 0 and does not skip itself. `node-results.txt` lists those that do not pass, and why.
A test that fails without a reason makes the exit code 1, and so does a listed test that passes. With BLESS=1, the command writes the inventory,
and adds and removes lines of the results.
"""

import argparse
import collections
import os
import pathlib
import re
import shlex
import shutil
import sys
import tempfile

import sandbox

MODULES = sandbox.HERE / "node-modules.txt"
INVENTORY = sandbox.HERE / "node-inventory.txt"
RESULTS = sandbox.HERE / "node-results.txt"
# The folders of a suite that tests use.
PARTS = ("common", "fixtures", "parallel")
BATCH = 40
PROCESSES = int(os.environ.get("PROCESSES", os.cpu_count()))
# Seconds after which a test fails.
TIMEOUT = 20
FLAGS = re.compile(r"^// Flags:\s+(.*)$", re.MULTILINE)
SKIPPED = re.compile(r"^1\.\.0 # Skipped: (.*)$", re.MULTILINE)
BLESS = os.environ.get("BLESS") == "1"
# The classes of reasons that new lines of the results get: by the test and its error.
CLASSES = (
    ("it skips itself", r": it skips itself"),
    ("the engine interprets, so it takes too long", r": it does not end"),
    ("the policy of the tests allows no links", r"EPERM: operation not permitted, (?:sym)?link|Insufficient privileges for symlinks"),
    ("contexts share the queue of microtasks of the program", r"^test-vm-.*(?:after-evaluate|escape-promise)"),
    ("the engine is not V8", r"^test-v8|bad option|GCProfiler|WebAssembly|stack-overflow|-gc\b|natives|inspector"),
    ("it reads files of Node's repository or of the machine", r"ENOENT|Cannot find module '\.\./\.\./|tools/icu"),
    ("node:http has no sockets, so it lacks their methods", r"^test-(?:https?|fetch|set-incoming)"),
    ("node:crypto does not report every error as OpenSSL does, or lacks an algorithm", r"^test-(?:crypto|webcrypto)"),
    ("hooks do not see every call", r"^test-async"),
    ("deprecation warnings are not emitted", r"expectWarning|DeprecationWarning|deprecat"),
    ("programs have no other processes, users or signals", r"^test-process-(?:exec|kill|ppid|setgroups|initgroups|euid|uid)|ESRCH|uid-gid"),
    ("the realm of a context is not V8's", r"^test-vm"),
    ("it behaves differently", r""),
)


class Test:
    def __init__(self, path, module):
        self.path, self.name, self.module = path, path.stem, module
        self.text = path.read_text(encoding="utf-8", errors="replace")

    def job(self, number):
        flags = [flag for line in FLAGS.findall(self.text) for flag in shlex.split(line)]
        return sandbox.Job(self.name, [*flags, f"test/parallel/{self.path.name}"], {"TEST_SERIAL_ID": str(number)})


class Rule:
    """What node-modules.txt says: which names belong to which module, and which texts are not selected."""

    def __init__(self, text):
        self.prefixes, self.without = {}, {}
        for line in text.splitlines():
            if line.startswith("without "):
                reason, pattern = line.removeprefix("without ").split(": ", 1)
                self.without[reason] = re.compile(pattern)
            elif line and not line.startswith("#"):
                module, names = line.split(": ", 1)
                self.prefixes.update({name: module for name in names.split()})

    def module(self, stem):
        """Returns the module with the longest name that the name of a test starts with."""
        name = stem.removeprefix("test-")
        parts = name.split("-")
        for length in range(len(parts), 0, -1):
            module = self.prefixes.get("-".join(parts[:length]))
            if module:
                return module if module != "-" else None
        return None

    def left_out(self, text):
        return next((reason for reason, pattern in self.without.items() if pattern.search(text)), None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skillhost", required=True, type=pathlib.Path, metavar="PATH", help="the host")
    parser.add_argument("--suite", required=True, type=pathlib.Path, metavar="DIR", help="the folder `test` of Node.js 22, or its parent")
    parser.add_argument("--list", action="store_true", help="print the output of each test that does not pass")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these modules and tests")
    args = parser.parse_args()
    suite = args.suite.resolve()
    suite = suite if (suite / "parallel").is_dir() else suite / "test"
    if not all((suite / part).is_dir() for part in PARTS):
        sys.exit(f"error: {args.suite} has no tests of Node.js: {', '.join(PARTS)}")
    tests, left_out = select(suite)
    inventory = "".join(f"{test.name}\n" for test in tests)
    if BLESS:
        INVENTORY.write_text(inventory)
    elif INVENTORY.read_text() != inventory:
        sys.exit(f"error: the suite has not the tests of {INVENTORY.name}: it is another version of Node.js")
    chosen = [test for test in tests if not args.names or test.name in args.names or test.module in args.names]
    if not chosen:
        sys.exit("error: no such test")
    failures = run(args.skillhost, suite, chosen, args.list)
    known = sandbox.read_reasons(RESULTS)
    if BLESS:
        known = bless(chosen, failures, known)
    same = report(chosen, failures, known)
    if not args.names:
        for reason, count in left_out.most_common():
            print(f"{count:>6}  not selected: {reason}")
    sys.exit(0 if same else 1)


def select(suite):
    rule = Rule(MODULES.read_text())
    tests, left_out = [], collections.Counter()
    for path in sorted((suite / "parallel").glob("test-*")):
        module = rule.module(path.stem) if path.suffix in (".js", ".mjs") else None
        if module is None:
            continue
        test = Test(path, module)
        reason = rule.left_out(test.text)
        if reason is None:
            tests.append(test)
        else:
            left_out[reason] += 1
    return tests, left_out


def run(skillhost, suite, tests, show):
    """Returns why tests failed, by their names."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder).resolve()
        workspace = folder / "workspace"
        for part in PARTS:
            shutil.copytree(suite / part, workspace / "test" / part, symlinks=True)
        host = sandbox.Sandbox(skillhost, folder, workspace, {}, TIMEOUT)
        ends = host.run([test.job(number) for number, test in enumerate(tests)], BATCH, PROCESSES)
    if show:
        for test in tests:
            end = ends[test.name]
            if why(end) is not None:
                print(f"=== {test.name}: {end.code}, {end.seconds} s\n{end.stdout}\n--- stderr\n{end.stderr}")
    return {test.name: reason for test in tests if (reason := why(ends[test.name])) is not None}


def why(end):
    """Returns why a test did not pass; None if it passed."""
    if end.code == "timeout":
        return f"it does not end within {TIMEOUT} s"
    if end.code != 0:
        return first_error(end)
    skipped = SKIPPED.search(end.stdout)
    return f"it skips itself: {skipped[1]}" if skipped else None


def first_error(end):
    """Returns the line of stderr that names the error."""
    lines = [line.strip() for line in end.stderr.splitlines()]
    errors = [line for line in lines if re.match(r"(Uncaught )?\w*(Error|Exception)\b", line)]
    found = (errors or [line for line in lines if line] or ["no message"])[0]
    return f"exit code {end.code}: {found}"[:200]


def bless(tests, failures, known):
    ran = {test.name for test in tests}
    kept = {name: reason for name, reason in known.items() if name in failures or name not in ran}
    kept.update({name: f"{reason_class(name, reason)} ({reason})" for name, reason in failures.items() if name not in kept})
    head = [line for line in RESULTS.read_text(encoding="utf-8").splitlines() if line.startswith("#")] if RESULTS.is_file() else []
    lines = [f"{name}: {reason}" for name, reason in sorted(kept.items())]
    RESULTS.write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")
    return kept


def reason_class(name, reason):
    return next(known for known, pattern in CLASSES if re.search(pattern, f"{name}: {reason}"))


def report(tests, failures, known):
    count, passed = collections.Counter(), collections.Counter()
    for test in tests:
        for group in (test.module, "all"):
            count[group] += 1
            passed[group] += test.name not in failures
    for group in sorted(count):
        print(f"| {group} | {passed[group]} of {count[group]} | {100 * passed[group] / count[group]:.1f} % |")
    same = True
    for test in tests:
        reason = failures.get(test.name)
        # How long a test takes depends on the machine.
        if reason is None and test.name in known and not known[test.name].startswith(CLASSES[1][0]):
            print(f"{test.name} passes, but is listed")
            same = False
        elif reason is not None and test.name not in known:
            print(f"{test.name} fails: {reason}")
            same = False
    classes = collections.Counter(known[name].split(" (")[0] for name in failures if name in known)
    for known_class, number in classes.most_common():
        print(f"| {known_class} | {number} |")
    for name in sorted(known.keys() - set(INVENTORY.read_text().split())):
        print(f"{name} is listed, but is not in the inventory")
        same = False
    return same


if __name__ == "__main__":
    main()
