"""Compares public skill scripts in JavaScript and TypeScript with Node.js 22: exit code and stdout of `--help` and of no arguments.

    python3 components/javascript/conformance/skill_scripts.py --suite DIR --node NODE --skillhost PATH [--list] [DIGEST...]

DIR contains checkouts of repositories with skills. The scripts are drawn by this rule, which was fixed before any of them ran:

1. A skill is a folder below DIR with a SKILL.md. Its candidates are the files directly in it, in `scripts/` or in `bin/` whose names end in
   .js, .mjs, .cjs, .ts, .mts or .cts. They have at most 256 KiB, and either start with `#!` or are named by SKILL.md. Files named `*.d.*`,
   `*.test.*`, `*.spec.*` or `*.config.*` are no candidates, and neither is anything below a `node_modules` folder.
2. Of candidates with the same content, the first counts, in the order of their paths.
3. The candidates are sorted by the SHA-256 of their content. Of N candidates, those at the positions 0, s, 2s ... count, where s is N // 240 and at
   least 1; at most 240 in all.

Natively, a script runs in bubblewrap: without network, with a read-only skill, an empty workspace and an empty home folder, as user 1000 of the
host `sandbox`. Both sides have the packages of the runtime. A script whose native output differs from run to run is compared without its digits.

`skill_scripts.txt` lists the scripts that differ, by the start of their digest, with reasons. A script that differs without a line there is an
error, and so is a line whose script behaves as in Node.js. At least 90 % of the scripts must behave as in Node.js in both ways.
"""

import argparse
import concurrent.futures
import dataclasses
import difflib
import hashlib
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
REASONS = HERE / "skill_scripts.txt"
PACKAGES = ROOT / "target/components/javascript-packages"
ENDINGS = (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts")
SKIPPED = re.compile(r"\.(d|test|spec|config)\.[cm]?[jt]s$")
FOLDERS = ("", "scripts", "bin")
LARGEST = 256 * 1024
COUNT = 240
GOAL = 90
# The ways to start a script.
WAYS = {"help": ["--help"], "plain": []}
# Seconds after which a script counts as one that does not end. The sandbox gets more, because its engine interprets.
NATIVE_TIMEOUT, SANDBOX_TIMEOUT = 10, 40
ENVIRONMENT = {"LANG": "C.UTF-8", "TZ": "UTC"}
# Natively, TypeScript needs an option; in the sandbox it does not.
NODE_OPTIONS = "--experimental-transform-types --disable-warning=ExperimentalWarning"
POLICY = """limits: { memory: 1GiB, processes: 200 }
default:
  allow: [Read, Write, Bash]
"""
SKILL = """---
name: skill
description: A public skill.
allowed-tools: Read Write Bash
---
"""


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
    parser.add_argument("--node", required=True, type=pathlib.Path, help="Node.js 22")
    parser.add_argument("--skillhost", required=True, type=pathlib.Path, metavar="PATH", help="the host")
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "target/components", help="the folder of built-in programs")
    parser.add_argument("--list", action="store_true", help="only print the drawn scripts")
    parser.add_argument("digests", nargs="*", metavar="DIGEST", help="only these scripts, with their differences")
    args = parser.parse_args()
    skills, candidates = find(args.suite.resolve())
    drawn = draw(candidates)
    chosen = [script for script in drawn if not args.digests or any(script.digest.startswith(digest) for digest in args.digests)]
    print(f"{skills} skills with {len(candidates)} different candidates, of which {len(drawn)} are drawn")
    if args.list:
        for script in chosen:
            print(f"{script.name()} {script.skill.relative_to(args.suite.resolve())} {script.path}")
        return
    if shutil.which("bwrap") is None:
        sys.exit("error: bwrap is missing; `apt install bubblewrap`")
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(args, pathlib.Path(folder).resolve())
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(runner.compare, chosen))
    report(chosen, results, bool(args.digests))


def find(suite):
    """Returns the number of skills that have candidates, and the candidates of each content, in the order of their digests."""
    by_digest, skills = {}, 0
    for manifest in sorted(suite.rglob("SKILL.md")):
        if "node_modules" in manifest.parts or manifest.is_symlink():
            continue
        skill, text = manifest.parent, manifest.read_text(encoding="utf-8", errors="replace")
        found = [path for name in FOLDERS if (skill / name).is_dir() for path in sorted((skill / name).iterdir()) if is_candidate(path, text)]
        skills += bool(found)
        for path in found:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            by_digest.setdefault(digest, Script(digest, skill, path.relative_to(skill).as_posix()))
    return skills, [by_digest[digest] for digest in sorted(by_digest)]


def is_candidate(path, manifest):
    if not path.name.endswith(ENDINGS) or SKIPPED.search(path.name) or path.is_symlink() or not path.is_file():
        return False
    if path.stat().st_size > LARGEST:
        return False
    with path.open("rb") as file:
        return file.read(2) == b"#!" or path.name in manifest


def draw(candidates):
    return candidates[:: max(1, len(candidates) // COUNT)][:COUNT]


class Runner:
    def __init__(self, args, folder):
        self.node, self.skillhost, self.programs = args.node.resolve(), args.skillhost.resolve(), args.programs.resolve()
        self.folder = folder
        self.policy = folder / "policy.yaml"
        self.policy.write_text(POLICY)

    def compare(self, script):
        """Returns the differences of each way, and what Node.js does."""
        place = self.folder / script.name()
        skill = place / "skill"
        shutil.copytree(script.skill, skill, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        # Declarations of a skill could refuse what the native run may do.
        (skill / "SKILL.md").write_text(SKILL)
        outcome = {}
        for way, words in WAYS.items():
            native = [self.native(script, skill, place / f"{way}{turn}", words, turn) for turn in range(2)]
            sandboxed = self.sandboxed(script, skill, place / f"{way}-here", words)
            shown = masked if native[0][:2] != native[1][:2] else lambda text: text
            same = native[0][0] == sandboxed[0] and shown(native[0][1]) == shown(sandboxed[1])
            outcome[way] = (same, native[0], sandboxed)
        shutil.rmtree(place, ignore_errors=True)
        print(f"{script.name()} {' '.join(way if same else way.upper() for way, (same, *_) in outcome.items())}", file=sys.stderr, flush=True)
        return outcome

    def native(self, script, skill, workspace, words, seconds):
        # Texts with the time differ in the second run.
        time.sleep(seconds * 1.1)
        workspace.mkdir()
        command = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"]
        command += ["--hostname", "sandbox", "--uid", "1000", "--gid", "1000"]
        for path in ("/usr/bin", "/usr/lib", "/usr/lib64", "/usr/share", "/bin", "/lib", "/lib64"):
            if os.path.exists(path):
                command += ["--ro-bind", path, path]
        command += ["--dir", "/usr/local/bin", "--ro-bind", self.node, "/usr/local/bin/node"]
        command += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--ro-bind", skill, "/skill", "--bind", workspace, "/workspace"]
        # Every folder finds its packages there.
        command += ["--ro-bind", PACKAGES, "/node_modules", "--remount-ro", "/", "--chdir", "/workspace"]
        own = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "TMPDIR": "/tmp", "NODE_OPTIONS": NODE_OPTIONS}
        for name in ("SKILL_DIR", "CLAUDE_SKILL_DIR", "CLAUDE_PLUGIN_ROOT"):
            own[name] = "/skill"
        for name, value in {**own, **ENVIRONMENT}.items():
            command += ["--setenv", name, value]
        return ended([*command, "--", "/usr/local/bin/node", f"/skill/{script.path}", *words], NATIVE_TIMEOUT)

    def sandboxed(self, script, skill, workspace, words):
        workspace.mkdir()
        command = [self.skillhost, "run", f"--policy={self.policy}", f"--workspace={workspace}", f"--audit={workspace}.jsonl"]
        command += [f"--programs={self.programs}", f"--timeout={SANDBOX_TIMEOUT}s", skill, script.path, "--", *words]
        code, stdout, stderr = ended(command, 3 * SANDBOX_TIMEOUT)
        return ("timeout" if code == 124 else code), stdout, stderr


def ended(command, timeout):
    """Returns exit code, stdout and stderr of a command without input."""
    done = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=bound)
    try:
        stdout, stderr = done.communicate(timeout=timeout)
        # A process that a signal ended, as a shell reports it.
        code = done.returncode if done.returncode >= 0 else 128 - done.returncode
    except subprocess.TimeoutExpired:
        done.kill()
        stdout, stderr = done.communicate()
        code = "timeout"
    return code, stdout.decode("utf-8", "replace"), stderr.decode("utf-8", "replace")


def bound():
    """Limits what a runaway script can cost this machine."""
    resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def masked(text):
    return re.sub(r"[0-9a-f]*\d[0-9a-f]*", "N", text)


def reasons():
    lines = REASONS.read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))


def report(scripts, results, detailed):
    known = reasons()
    failed, same, succeeding = [], 0, 0
    for script, outcome in zip(scripts, results):
        agrees = all(equal for equal, *_ in outcome.values())
        same += agrees
        succeeding += any(native[0] == 0 for _, native, _ in outcome.values())
        if agrees != (script.name() not in known):
            failed.append(script.name())
        if detailed or (not agrees and script.name() not in known):
            show(script, outcome)
        elif agrees and script.name() in known:
            print(f"--- {script.name()} behaves as in Node.js: remove it from {REASONS.name}")
    share = 100 * same / max(1, len(scripts))
    print(f"{same} of {len(scripts)} scripts ({share:.1f} %) as in Node.js 22; {succeeding} of them end with 0 natively in at least one way")
    if detailed:
        return
    stale = sorted(known.keys() - {script.name() for script in scripts})
    if stale:
        print(f"{REASONS.name} lists scripts that are not drawn: {', '.join(stale)}")
    sys.exit(1 if failed or stale or share < GOAL else 0)


def show(script, outcome):
    for way, (equal, native, sandboxed) in outcome.items():
        print(f"--- {script.name()} {way}: {script.skill.name}/{script.path}: {'same' if equal else 'differs'}, exit {native[0]} and {sandboxed[0]}")
        if equal:
            continue
        print("".join(list(difflib.unified_diff(native[1].splitlines(True), sandboxed[1].splitlines(True), "Node.js", "here"))[:30]))
        for name, (_, _, stderr) in (("Node.js", native), ("here", sandboxed)):
            print(f"stderr, {name}:\n" + "\n".join(stderr.splitlines()[:12]))


if __name__ == "__main__":
    main()
