"""Compares public scripts of skills with bash or Python: exit code and stdout of `--help` and of no arguments.

    python3 components/shell/conformance/skill_scripts.py --suite DIR --skillhost PATH [--language shell|python] [--list] [DIGEST...]

DIR contains checkouts of repositories with skills. The scripts are drawn by this rule, which was fixed before any of them ran:

1. A skill is a folder below DIR with a SKILL.md. Its candidates are the files directly in it, in `scripts/` or in `bin/` that have at most
   256 KiB, and whose names end in .sh or .bash, or whose first line starts bash, sh or dash; for Python, in .py, or whose first line starts
   python, python3 or `uv run`. A file whose first line starts something else is no candidate, and neither is one whose name has `test` as a word
   or, for Python, is `__NAME__.py`, nor anything below a `node_modules` folder.
2. Of candidates with the same content, the first counts, in the order of their paths.
3. The candidates are sorted by the SHA-256 of their content. Of N candidates, those at the positions 0, s, 2s ... count, where s is N // 400 and at
   least 1; at most 400 in all.

Natively, a script runs in bubblewrap: without network, with a read-only skill, an empty workspace and an empty home folder, as user 1000 of the
host `sandbox`, with the programs that the sandbox has (`components/shell/programs.txt`, `MORE`, the shims of both.py, the newest Python of this
machine and the packages of the Python runtime) and its `/etc/os-release`. `sh` is bash, as in the sandbox. A script whose native output differs
from run to run is compared without its digits. The version numbers of Python, Node.js, npm and git count as equal. Files that start with `#!`
are executable.

`skill_scripts.txt` and `python_scripts.txt` list the scripts that differ, by the start of their digest, with reasons. A reason that starts with
`not comparable:` says what this machine lacks, has in another way, or must not do. A script that differs without a line there is an error, and so
is a line whose script behaves as it does natively. At least 95 % of the comparable scripts must behave as they do natively in both ways.
"""

import argparse
import concurrent.futures
import dataclasses
import difflib
import hashlib
import os
import pathlib
import re
import shutil
import sys
import tempfile
import time

from both import HERE, PROGRAMS, SKILL, Both, check, reasons

TEST = re.compile(r"(^|[-_.])tests?([-_.]|$)")
# For Python, also the modules of a package.
MODULE = re.compile(rf"{TEST.pattern}|^__\w+__\.py$")
FOLDERS = ("", "scripts", "bin")
LARGEST = 256 * 1024
COUNT = 400
GOAL = 95
# The ways to start a script.
WAYS = {"help": ["--help"], "plain": []}
# Programs of the sandbox beside those of programs.txt.
# What both sides print about themselves.
VERSIONS = "python3 -V; node -v; npm -v; git --version"
NOT_COMPARABLE = "not comparable: "
MORE = "bash sh env nice nohup timeout make openssl ps pgrep pkill node npm npx".split()


@dataclasses.dataclass(frozen=True)
class Language:
    # What scripts are compared with.
    name: str
    list: pathlib.Path
    endings: tuple
    # The first lines that start its scripts. A group is the interpreter.
    first_line: re.Pattern
    interpreter: str
    # The names of files that are no scripts.
    no_script: re.Pattern = TEST


LANGUAGES = {
    "shell": Language("bash", HERE / "skill_scripts.txt", (".sh", ".bash"), re.compile(rb"#! *\S*/(?:env +(?:-S +)?)?(bash|sh|dash)\b"), "bash"),
    "python": Language("Python", HERE / "python_scripts.txt", (".py",), re.compile(rb"#! *\S*/(?:env +(?:-S +)?)?(?:python[0-9.]*|uv run)\b"), "python3", MODULE),
}


@dataclasses.dataclass(frozen=True)
class Script:
    digest: str
    skill: pathlib.Path
    # Relative to the skill.
    path: str

    def name(self):
        return self.digest[:16]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", required=True, type=pathlib.Path, metavar="DIR", help="a folder with checkouts of repositories")
    parser.add_argument("--skillhost", required=True, type=pathlib.Path, metavar="PATH", help="the host")
    parser.add_argument("--programs", type=pathlib.Path, default=PROGRAMS, help="the folder of built-in programs")
    parser.add_argument("--language", choices=LANGUAGES, default="shell", help="the language of the scripts")
    parser.add_argument("--list", action="store_true", help="only print the drawn scripts")
    parser.add_argument("digests", nargs="*", metavar="DIGEST", help="only these scripts, with their differences")
    args = parser.parse_args()
    language = LANGUAGES[args.language]
    skills, candidates = find(args.suite.resolve(), language)
    drawn = draw(candidates)
    chosen = [script for script in drawn if not args.digests or any(script.digest.startswith(digest) for digest in args.digests)]
    print(f"{skills} skills with {len(candidates)} different candidates, of which {len(drawn)} are drawn")
    if args.list:
        for script in chosen:
            print(f"{script.name()} {script.skill.relative_to(args.suite.resolve())} {script.path}")
        return
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(args, language, pathlib.Path(folder).resolve())
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(runner.compare, chosen))
    report(language, chosen, results, bool(args.digests))


def find(suite, language):
    """Returns the number of skills that have candidates, and the candidates of each content, in the order of their digests."""
    by_digest, skills = {}, 0
    for manifest in sorted(suite.rglob("SKILL.md")):
        if "node_modules" in manifest.parts or manifest.is_symlink():
            continue
        skill = manifest.parent
        found = [path for name in FOLDERS if (skill / name).is_dir() for path in sorted((skill / name).iterdir()) if is_candidate(path, language)]
        skills += bool(found)
        for path in found:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            by_digest.setdefault(digest, Script(digest, skill, path.relative_to(skill).as_posix()))
    return skills, [by_digest[digest] for digest in sorted(by_digest)]


def is_candidate(path, language):
    if path.is_symlink() or not path.is_file() or language.no_script.search(path.name) or path.stat().st_size > LARGEST:
        return False
    with path.open("rb") as file:
        first = file.readline(200)
    return bool(language.first_line.match(first)) or (path.name.endswith(language.endings) and not first.startswith(b"#!"))


def has_first_line(path):
    with path.open("rb") as file:
        return file.read(2) == b"#!"


def draw(candidates):
    return candidates[:: max(1, len(candidates) // COUNT)][:COUNT]


class Runner:
    def __init__(self, args, language, folder):
        self.language = language
        self.both, self.folder = Both(args.skillhost, args.programs, folder), folder
        self.tools = (HERE.parent / "programs.txt").read_text().split() + MORE
        self.files = {}
        self.versions = []
        self.prepare()

    def prepare(self):
        """Reads what the sandbox has in another version than this machine. By that, its programs are compiled before the first script runs."""
        skill = self.folder / "skill"
        skill.mkdir()
        (skill / "SKILL.md").write_text(SKILL)
        for attempt in range(5):
            command = f"{VERSIONS}; cat /etc/os-release"
            code, here, stderr = self.both.sandboxed(["--command", command], skill, self.folder / f"here-{attempt}")
            if code == 0:
                break
        else:
            sys.exit(f"error: the sandbox cannot start: {stderr}")
        lines = here.splitlines(keepends=True)
        (self.folder / "os-release").write_text("".join(lines[4:]))
        self.files["/etc/os-release"] = self.folder / "os-release"
        native = self.both.native(["bash", "-c", VERSIONS], skill, self.folder / "native", tools=self.tools)[1]
        pairs = [(version(there), version(ours)) for there, ours in zip(native.splitlines(), lines)]
        # Scripts print the version of Python without its last number too.
        pairs += [tuple(number.rpartition(".")[0] for number in pairs[0])]
        self.versions = [(re.compile(rf"(?<![\d.]){re.escape(there)}(?![\d.]*\d)"), ours) for there, ours in pairs]

    def with_versions(self, text):
        """Returns native output with the versions of the sandbox."""
        for pattern, ours in self.versions:
            text = pattern.sub(lambda _: ours, text)
        return text

    def compare(self, script):
        """Returns the differences of each way, and what happens natively."""
        place = self.folder / script.name()
        skill = place / "skill"
        shutil.copytree(script.skill, skill, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        # Declarations of a skill could refuse what the native run may do.
        (skill / "SKILL.md").write_text(SKILL)
        with (skill / script.path).open("rb") as file:
            started = self.language.first_line.match(file.readline(200))
        interpreter = started[1].decode() if started and started.re.groups else self.language.interpreter
        # Folders of skills often lost the executable bits, which the sandbox ignores.
        for file in skill.rglob("*"):
            if file.is_file() and not file.is_symlink() and has_first_line(file):
                file.chmod(0o755)
        outcome = {}
        for way, words in WAYS.items():
            native, sandboxed = [self.native(script, interpreter, skill, place / way, words)], self.sandboxed(script, skill, place / f"{way}-here", words)
            if native[0][:2] != sandboxed[:2]:
                # Texts with the time differ in the second run.
                time.sleep(1.1)
                native.append(self.native(script, interpreter, skill, place / f"{way}-again", words))
            shown = masked if native[0][:2] != native[-1][:2] else lambda text: text
            same = native[0][0] == sandboxed[0] and shown(self.with_versions(native[0][1])) == shown(sandboxed[1])
            outcome[way] = (same, native[0], sandboxed)
        shutil.rmtree(place, ignore_errors=True)
        print(f"{script.name()} {' '.join(way if same else way.upper() for way, (same, *_) in outcome.items())}", file=sys.stderr, flush=True)
        return outcome

    def native(self, script, interpreter, skill, workspace, words):
        env = {name: "/skill" for name in ("SKILL_DIR", "CLAUDE_SKILL_DIR", "CLAUDE_PLUGIN_ROOT")}
        return self.both.native([interpreter, f"/skill/{script.path}", *words], skill, workspace, env=env, tools=self.tools, files=self.files)

    def sandboxed(self, script, skill, workspace, words):
        return self.both.sandboxed([script.path, "--", *words], skill, workspace)


def version(line):
    """Returns the version that a program prints after its name, if at all."""
    return line.strip().removeprefix("Python ").removeprefix("git version ")


def masked(text):
    return re.sub(r"[0-9a-f]*\d[0-9a-f]*", "N", text)


def report(language, scripts, results, detailed):
    known = reasons(language.list)
    differing, same, succeeding = [], 0, 0
    for script, outcome in zip(scripts, results):
        agrees = all(equal for equal, *_ in outcome.values())
        same += agrees
        succeeding += any(native[0] == 0 for _, native, _ in outcome.values())
        if not agrees:
            differing.append(script.name())
        if detailed or (not agrees and script.name() not in known):
            show(language, script, outcome)
    comparable = len(scripts) - sum(known.get(name, "").startswith(NOT_COMPARABLE) for name in differing)
    share, of_comparable = (100 * same / max(1, count) for count in (len(scripts), comparable))
    print(f"{same} of {len(scripts)} scripts ({share:.1f} %) as in {language.name}, and of {comparable} that are comparable {of_comparable:.1f} %;")
    print(f"{succeeding} end with 0 natively in at least one way")
    if detailed:
        return
    same = check(language.list, differing, {script.name() for script in scripts})
    sys.exit(0 if same and of_comparable >= GOAL else 1)


def show(language, script, outcome):
    for way, (equal, native, sandboxed) in outcome.items():
        print(f"--- {script.name()} {way}: {script.skill.name}/{script.path}: {'same' if equal else 'differs'}, exit {native[0]} and {sandboxed[0]}")
        if equal:
            continue
        print("".join(list(difflib.unified_diff(native[1].splitlines(True), sandboxed[1].splitlines(True), language.name, "here"))[:30]))
        for name, (_, _, stderr) in ((language.name, native), ("here", sandboxed)):
            print(f"stderr, {name}:\n" + "\n".join(stderr.splitlines()[:12]))


if __name__ == "__main__":
    main()
