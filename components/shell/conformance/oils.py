"""Compares the shell with bash on the spec tests of Oils: exit code and stdout.

    python3 components/shell/conformance/oils.py --suite DIR --skillhost PATH [--list] [NAME...]

DIR is a checkout of Oils. NAME is FILE or FILE:NUMBER; with names, the differences are shown. The cases are selected by this rule:

1. A file counts if it is in spec/ and its line `## compare_shells:` names bash. The other files name no bash: most test languages that only Oils has.
2. Each case of such a file counts, unless it needs what a script in a sandbox does not have, which `EXCLUDED` says by patterns of its text:
   job control, a terminal, another shell, or a tool that only Oils has.
3. A case does not count if bash itself differs from run to run, or does not end.

`oils.txt` lists the cases that differ, with reasons. A case that differs without a line there is an error, and so is a line whose case agrees.
"""

import argparse
import collections
import concurrent.futures
import difflib
import os
import pathlib
import re
import shutil
import sys
import tempfile

from both import HERE, PROGRAMS, SKILL, Both, bound_core, check, parts, reasons

LIST = HERE / "oils.txt"
GOAL = 98.5
BATCH = 20
# Why a case does not count, and the pattern of its text.
EXCLUDED = {
    "job control": r"(?m)(^|[;&|]\s*|do |then |\{ )\s*(jobs|fg|bg|disown|suspend)\b|\bset [-+]m\b|-o monitor|\$SH [^\n]*-[a-z]*m\b|kill (-[A-Z0-9]+ )?%|wait -n|wait %",
    "a terminal": r"\$SH\s[^\n]*-[a-z]*i[a-z]*\b|/dev/tty|\bbind\b|\bhistory\b|\bfc\b|\bstty\b|--rcfile|\bcompgen\b|\bcomplete\b|\bcompopt\b|\bPS1=|test -t|-t [012]\b|read [^\n]*-[a-z]*e",
    "another shell": r"\b(ysh|osh|dash|mksh|zsh|yash|busybox)\b(?!\*?\)|[\w/]*\|)[^\n]*-c|^\s*(ysh|osh) |\$YSH|\$OSH|bin/osh|bin/ysh|shopt [^\n]*(ysh:|oil:|strict_|strict:|parse_|simple_|expand_aliases_never|command_sub_errexit|process_sub_fail|sigpipe_status_ok|verbose_errexit|dashglob|nullglob_)",
    "other tools": r"\bpython2\b|\bgawk\b|\$PYTHON|_tmp/|test/signal-report|show_fd_table|spec/stateful|/proc/|\bstrace\b",
}
# The tools of the suite that print what they get, as shell scripts: the suite's own need Python 2. What they print need not be the same.
TOOLS = {
    "argv.py": """#!/bin/bash
printf '%s' "$#"; (($#)) && printf ' [%s]' "$@"; echo
""",
    "printenv.py": """#!/bin/bash
for name; do if [[ -v $name ]]; then printf '%s\\n' "${!name}"; else echo None; fi; done
""",
    "read_from_fd.py": """#!/bin/bash
for fd; do printf '%s: ' "$fd"; cat <&"$fd" || echo FATAL; done
""",
    "stdout_stderr.py": """#!/bin/bash
echo "${1-STDOUT}"; echo "${2-STDERR}" >&2; exit "${3-0}"
""",
}
# Files that are about one of these.
EXCLUDED_FILES = {
    "builtin-bind": "a terminal",
    "builtin-completion": "a terminal",
    "builtin-fc": "a terminal",
    "builtin-history": "a terminal",
    "interactive": "a terminal",
    "interactive-parse": "a terminal",
    "prompt": "a terminal",
}


class Case:
    def __init__(self, file, number, title, text):
        self.file, self.number, self.title, self.text = file, number, title, text

    def name(self):
        return f"{self.file}:{self.number}"

    def file_name(self):
        return f"{self.file}-{self.number}"

    def excluded(self):
        for reason, pattern in EXCLUDED.items():
            if re.search(pattern, self.text):
                return reason
        return EXCLUDED_FILES.get(self.file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", required=True, type=pathlib.Path, metavar="DIR", help="a checkout of Oils")
    parser.add_argument("--skillhost", required=True, type=pathlib.Path, metavar="PATH", help="the host")
    parser.add_argument("--programs", type=pathlib.Path, default=PROGRAMS, help="the folder of built-in programs")
    parser.add_argument("--list", action="store_true", help="only print the cases, and why some do not count")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these cases, with their differences")
    args = parser.parse_args()
    cases, others = read(args.suite)
    print(f"{len(cases) + others} cases, of which {others} are in files about languages that only Oils has")
    counted = [case for case in cases if case.excluded() is None]
    left = collections.Counter(case.excluded() for case in cases if case.excluded())
    print(f"{len(cases)} are in files about bash; without those that need " + ", ".join(f"{reason} ({n})" for reason, n in sorted(left.items())) + f": {len(counted)}")
    if args.list:
        for case in cases:
            print(f"{case.name()} {case.title}" + (f" -- needs {case.excluded()}" if case.excluded() else ""))
        return
    chosen = [case for case in counted if not args.names or case.file in args.names or case.name() in args.names]
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(args, pathlib.Path(folder).resolve())
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            batches = [chosen[at : at + BATCH] for at in range(0, len(chosen), BATCH)]
            results = [result for batch in pool.map(runner.compare, batches) for result in batch]
    report(chosen, results, bool(args.names))


def read(suite):
    """Returns the cases of files about bash, and the number of the others."""
    files = sorted((suite / "spec").glob("*.test.sh"))
    if not files:
        sys.exit(f"error: {suite}/spec has no *.test.sh; DIR must be a checkout of Oils")
    cases, others = [], 0
    for file in files:
        text = file.read_text(encoding="utf-8", errors="surrogateescape")
        parts = re.split(r"(?m)^####[ \t]*", text)
        shells = re.search(r"(?m)^##? *compare_shells:(.*)$", parts[0])
        if not shells or not re.search(r"\bbash\b", shells[1]):
            others += len(parts) - 1
            continue
        for number, part in enumerate(parts[1:]):
            title, _, body = part.partition("\n")
            cases.append(Case(file.name.removesuffix(".test.sh"), number, title.strip(), code(body)))
    return cases, others


def code(body):
    """Returns the shell code of a case: what precedes its expectations."""
    inline = re.search(r"(?ms)^## code: (.*?)$", body)
    if inline:
        return inline[1] + "\n"
    return re.split(r"(?m)^## ", body, maxsplit=1)[0]


class Runner:
    def __init__(self, args, folder):
        self.both, self.folder = Both(args.skillhost, args.programs, folder, bound_core), folder
        self.skill = folder / "skill"
        shutil.copytree(args.suite / "spec/bin", self.skill / "spec/bin")
        shutil.copytree(args.suite / "spec/testdata", self.skill / "spec/testdata", symlinks=True)
        for name, text in TOOLS.items():
            (self.skill / "spec/bin" / name).write_text(text)
        (self.skill / "SKILL.md").write_text(SKILL)
        (self.skill / "cases").mkdir()

    def compare(self, batch):
        """Returns what bash does, twice if the shell does something else, and what the shell does, for each case. Most cases agree, so that
        several run after each other; those that do not, run again by themselves."""
        for case in batch:
            (self.skill / "cases" / case.file_name()).write_text(case.text, encoding="utf-8", errors="surrogateescape")
        first = self.together(batch) if len(batch) > 1 else {}
        results = []
        for case in batch:
            native, ours = first.get(case.name(), (None, None))
            alone = native is None or native != ours
            results.append(self.alone(case) if alone else ([(int(native[0]), native[1], "")], (int(ours[0]), ours[1], "")))
            native, ours = results[-1]
            print(f"{case.name()} {'same' if native[0][:2] == ours[:2] else 'DIFFERS'}", file=sys.stderr, flush=True)
            # A skill has a limit of files.
            (self.skill / "cases" / case.file_name()).unlink()
        return results

    def together(self, batch):
        place = self.folder / f"{batch[0].file_name()}-batch"
        steps = [f"({command(case)}); {mark(case)}" for case in batch]
        (self.skill / "cases" / place.name).write_text("\n".join(steps) + "\n")
        start = f"bash /skill/cases/{place.name}"
        native = parts(self.both.native(["bash", "-c", start], self.skill, place / "native")[1])
        ours = parts(self.both.sandboxed(["--command", start], self.skill, place / "here")[1])
        shutil.rmtree(place, ignore_errors=True)
        (self.skill / "cases" / place.name).unlink()
        return {case.name(): (native.get(case.name()), ours.get(case.name())) for case in batch}

    def alone(self, case):
        place = self.folder / case.file_name()
        start = command(case)
        native = [self.both.native(["bash", "-c", start], self.skill, place / "native")]
        ours = self.both.sandboxed(["--command", start], self.skill, place / "here")
        # The second run tells which of the differences are bash's own.
        if native[0][:2] != ours[:2]:
            native.append(self.both.native(["bash", "-c", start], self.skill, place / "again"))
        shutil.rmtree(place, ignore_errors=True)
        return native, ours


def command(case):
    """Starts the case in a folder of its own, in /tmp: there, links may lead anywhere."""
    folder = f"/tmp/{case.file_name()}"
    env = {"SH": "bash", "TMP": folder, "REPO_ROOT": "/skill", "PATH": "/skill/spec/bin:/usr/local/bin:/usr/bin:/bin"}
    words = " ".join(f"{key}={value}" for key, value in env.items())
    return f"mkdir {folder}; cd {folder}; {words} bash /skill/cases/{case.file_name()} </dev/null 2>/dev/null"


def mark(case):
    return f"printf '\\n@@%s %s@@\\n' {case.name()} $?"


def report(cases, results, detailed):
    known = reasons(LIST)
    differing, same, varying = [], 0, []
    for case, (native, ours) in zip(cases, results):
        if native[0][:2] != native[-1][:2] or native[0][0] == "timeout":
            varying.append(case.name())
            continue
        agrees = native[0][:2] == ours[:2]
        same += agrees
        if not agrees:
            differing.append(case.name())
        if not agrees and (detailed or case.name() not in known):
            show(case, native[0], ours)
    count = len(cases) - len(varying)
    share = 100 * same / max(1, count)
    print(f"not counted, because bash differs from run to run or does not end: {' '.join(varying) or 'none'}")
    print(f"{same} of {count} cases ({share:.1f} %) as in bash")
    if detailed:
        return
    same = check(LIST, differing, {case.name() for case in cases} - set(varying))
    sys.exit(0 if same and share >= GOAL else 1)


def show(case, native, ours):
    print(f"--- {case.name()}: {case.title}: exit {native[0]} and {ours[0]}")
    print(case.text.strip())
    print("".join(list(difflib.unified_diff(native[1].splitlines(True), ours[1].splitlines(True), "bash", "here"))[:40]))
    for name, (_, _, stderr) in (("bash", native), ("here", ours)):
        print(f"stderr, {name}:\n" + "\n".join(stderr.splitlines()[:8]))


if __name__ == "__main__":
    main()
