"""Runs test262, the tests of ECMAScript, in the sandbox: `language` and `built-ins`.

    python3 components/javascript/conformance/test262.py --skillhost PATH --suite DIR [NAME...]

NAME is a folder or a file below `test/`: `language/expressions`. A test that may be strict or not runs in both modes, and passes if it passes
in both; each of these runs has a guest of its own (test262.cjs).

`test262.txt` lists what does not pass, and why: `feature NAME` for the tests that test262 marks with a feature, else the path of a test. A test
that fails without a reason makes the exit code 1, and so does a line to which no failing test belongs. With BLESS=1, the command adds and removes
lines instead.
"""

import argparse
import collections
import os
import pathlib
import re
import sys
import tempfile
import shutil

import sandbox

FOLDERS = ("language", "built-ins")
RESULTS = sandbox.HERE / "test262.txt"
RUNNER = "test262.cjs"
# Options of `node`: files are modules unless scripts read them, and a rejected promise is no failure.
OPTIONS = ["--expose-gc", "--experimental-default-type=module", "--unhandled-rejections=none", "--no-warnings"]
BATCH = 400
# Seconds after which a test fails.
TIMEOUT = 60
# Features that Node.js 22 lacks without options.
LATER = """Atomics.pause Error.isError Float16Array Iterator.prototype.join Math.sumPrecise RegExp.escape ShadowRealm Temporal Atomics.waitAsync
await-dictionary decorators error-stack-accessor explicit-resource-management export-defer immutable-arraybuffer import-bytes import-defer import-text
iterator-chunking iterator-includes iterator-sequencing joint-iteration legacy-regexp nonextensible-applies-to-private promise-try
regexp-modifiers source-phase-imports source-phase-imports-module-source uint8array-base64 upsert""".split()
BLESS = os.environ.get("BLESS") == "1"


class Test:
    def __init__(self, suite, name):
        self.name = name
        text = (suite / "test" / name).read_text(encoding="utf-8", errors="surrogateescape")
        head = text[text.find("/*---") + 5 : text.find("---*/")]
        self.flags = words(head, "flags")
        self.features = words(head, "features")
        negative = re.search(r"^negative:\s*\n((?:[ \t]+.*\n?)+)", head, re.MULTILINE)
        found = dict(re.findall(r"(phase|type):\s*(\S+)", negative[1])) if negative else {}
        self.phase, self.type = found.get("phase", "-"), found.get("type", "-")
        self.includes = [] if "raw" in self.flags else ["assert.js", "sta.js", *words(head, "includes")]
        if "async" in self.flags:
            self.includes.append("doneprintHandle.js")

    def modes(self):
        if "module" in self.flags:
            return ["module"]
        if "raw" in self.flags or "noStrict" in self.flags:
            return ["sloppy"]
        return ["strict"] if "onlyStrict" in self.flags else ["sloppy", "strict"]

    def jobs(self):
        prefix = "async-" if "async" in self.flags else ""
        for mode in self.modes():
            words = ["/conformance", f"/conformance/test/{self.name}", prefix + mode, self.phase, self.type, *self.includes]
            yield sandbox.Job(f"{self.name} {mode}", [*OPTIONS, f"/workspace/{RUNNER}", *words])


def words(head, key):
    """Returns a list of the head of a test, in either of the two ways in which YAML writes one."""
    flow = re.search(rf"^{key}:\s*\[([^\]]*)\]", head, re.MULTILINE)
    if flow:
        return [word.strip() for word in flow[1].split(",") if word.strip()]
    block = re.search(rf"^{key}:\s*\n((?:\s+-.*\n?)+)", head, re.MULTILINE)
    return [line.strip().removeprefix("-").strip() for line in block[1].splitlines() if line.strip()] if block else []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skillhost", required=True, type=pathlib.Path, metavar="PATH", help="the host")
    parser.add_argument("--suite", required=True, type=pathlib.Path, metavar="DIR", help="a checkout of github.com/tc39/test262")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these folders and files")
    args = parser.parse_args()
    suite = args.suite.resolve()
    if not (suite / "harness/sta.js").is_file():
        sys.exit(f"error: {suite} is not a checkout of test262")
    tests = select(suite, args.names)
    failures = run(args.skillhost, suite, tests)
    known = sandbox.read_reasons(RESULTS)
    if BLESS:
        known = bless(tests, failures, known, complete=not args.names)
    sys.exit(0 if report(tests, failures, known, complete=not args.names) else 1)


def select(suite, names):
    tests = []
    for folder in FOLDERS:
        for path in sorted((suite / "test" / folder).rglob("*.js")):
            name = path.relative_to(suite / "test").as_posix()
            if path.stem.endswith("_FIXTURE") or names and not any(name == wanted or name.startswith(f"{wanted}/") for wanted in names):
                continue
            test = Test(suite, name)
            # For programs whose main thread cannot wait.
            if "CanBlockIsFalse" not in test.flags:
                tests.append(test)
    if not tests:
        sys.exit("error: no such test")
    return tests


def run(skillhost, suite, tests):
    """Returns why tests failed, by their names."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder).resolve()
        workspace = folder / "workspace"
        workspace.mkdir()
        shutil.copy(sandbox.HERE / RUNNER, workspace)
        host = sandbox.Sandbox(skillhost, folder, workspace, {"/conformance": suite}, TIMEOUT)
        ends = host.run([job for test in tests for job in test.jobs()], BATCH)
    failures = {}
    for test in tests:
        for job in test.jobs():
            end = ends[job.name]
            if end.code != 0:
                lines = [line for line in end.stderr.splitlines() if line.strip()]
                failures.setdefault(test.name, f"{end.code}: {lines[0] if lines else ''}")
    return failures


def bless(tests, failures, known, complete):
    features = {name.removeprefix("feature ") for name in known if name.startswith("feature ")}
    unexplained = {test.name for test in tests if test.name in failures and not features & set(test.features)}
    ran = {test.name for test in tests}
    used = {feature for test in tests if test.name in failures for feature in test.features}
    kept = {}
    for name, reason in known.items():
        feature = name.removeprefix("feature ")
        if (feature in used if name != feature else name in unexplained) or not complete and name not in ran:
            kept[name] = reason
    for name in sorted(unexplained - kept.keys()):
        kept[name] = failures[name][:160]
    head = [line for line in RESULTS.read_text(encoding="utf-8").splitlines() if line.startswith("#")] if RESULTS.is_file() else []
    lines = [f"{name}: {reason}" for name, reason in sorted(kept.items(), key=lambda pair: (not pair[0].startswith("feature "), pair[0]))]
    RESULTS.write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")
    return kept


def report(tests, failures, known, complete):
    count = collections.Counter()
    passed = collections.Counter()
    for test in tests:
        groups = ["all", test.name.split("/")[0]]
        if not set(test.features) & set(LATER):
            groups.append("features of Node.js 22")
        for group in groups:
            count[group] += 1
            passed[group] += test.name not in failures
    for group in sorted(count):
        print(f"| {group} | {passed[group]} of {count[group]} | {100 * passed[group] / count[group]:.1f} % |")
    by_feature = collections.Counter()
    used = set()
    same = True
    for test in tests:
        why = failures.get(test.name)
        features = [feature for feature in test.features if f"feature {feature}" in known]
        if why is None and test.name in known:
            print(f"{test.name} passes, but is listed")
            same = False
        elif why is not None and features:
            by_feature[features[0]] += 1
            used.add(f"feature {features[0]}")
        elif why is not None and test.name in known:
            used.add(test.name)
        elif why is not None:
            print(f"{test.name} fails: {why}")
            same = False
    for feature, number in by_feature.most_common():
        print(f"{number:>6}  {feature}")
    for name in sorted(known.keys() - used) if complete else []:
        print(f"no failing test belongs to this line: {name}")
        same = False
    return same


if __name__ == "__main__":
    main()
