"""Runs many `node` commands in the sandbox, each in a guest of its own. Several of them share one start of the host (`launch.py`)."""

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
PROGRAMS = ROOT / "target/components"
POLICY = """limits: {{ timeout: 20m, memory: 1GiB, disk: 2GiB, files: 100000, random: 256MiB, process-depth: 12, processes: 100000 }}
default:
  allow: [Read, Write, Bash]
{mounts}"""
SKILL = """---
name: javascript-conformance
description: Runs other projects' tests of JavaScript.
allowed-tools: Read Write Bash
---
"""
# The code of a command whose run of the host ended before it did.
CRASHED = "crashed"


@dataclasses.dataclass
class Job:
    name: str
    # The arguments of `node`.
    words: list
    env: dict = dataclasses.field(default_factory=dict)
    folder: str = "/workspace"


@dataclasses.dataclass
class End:
    """How a command ended: an exit code, `timeout` or `crashed`."""

    code: object
    stdout: str
    stderr: str
    seconds: float


class Sandbox:
    """`folder` is scratch space; `workspace` is the folder that the commands share, at /workspace; `mounts` are other folders, by their
    paths in the guest, which they can only read."""

    def __init__(self, skillhost, folder, workspace, mounts, timeout):
        self.skillhost, self.folder, self.workspace, self.timeout = str(pathlib.Path(skillhost).resolve()), folder, workspace, timeout
        self.skill = folder / "javascript-conformance"
        (self.skill / "scripts").mkdir(parents=True)
        (self.skill / "SKILL.md").write_text(SKILL)
        shutil.copy(HERE / "launch.py", self.skill / "scripts")
        self.lists = workspace / ".lists"
        self.lists.mkdir(parents=True)
        lines = "".join(f"    - {{ host: {json.dumps(str(host))}, guest: {guest}, mode: read }}\n" for guest, host in mounts.items())
        self.policy = folder / "policy.yaml"
        self.policy.write_text(POLICY.format(mounts=f"  mounts:\n{lines}" if lines else ""))

    def run(self, jobs, batch, processes=None):
        """Returns the end of each job by its name. `batch` commands share one start of the host."""
        batches = [jobs[start : start + batch] for start in range(0, len(jobs), batch)]
        ends, done = {}, 0
        with concurrent.futures.ThreadPoolExecutor(processes or os.cpu_count()) as pool:
            for results in pool.map(self._all, range(len(batches)), batches):
                ends.update(results)
                done += len(results)
                print(f"\r{done} of {len(jobs)}", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        return ends

    def _all(self, number, jobs):
        ends = {}
        while jobs:
            ended, complaint = self._some(number, jobs)
            ends.update(ended)
            jobs = jobs[len(ended) :]
            if jobs:
                # The command under way took the run down. The others are run without it.
                ends[jobs[0].name] = End(CRASHED, "", complaint, 0.0)
                jobs = jobs[1:]
        return ends

    def _some(self, number, jobs):
        """Runs jobs until one of them ends the run of the host."""
        described = [{**dataclasses.asdict(job), "timeout": self.timeout} for job in jobs]
        (self.lists / f"{number}.json").write_text(json.dumps(described))
        results = self.lists / f"{number}.jsonl"
        results.unlink(missing_ok=True)
        options = [f"--workspace={self.workspace}", f"--audit={self.folder}/audit{number}.jsonl", f"--policy={self.policy}"]
        options += [f"--programs={PROGRAMS}"]
        lists = [f"/workspace/.lists/{number}.{ending}" for ending in ("json", "jsonl")]
        command = [self.skillhost, "run", *options, str(self.skill), "scripts/launch.py", "--", *lists]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
        (self.folder / f"audit{number}.jsonl").unlink(missing_ok=True)
        lines = results.read_text(encoding="utf-8").splitlines() if results.is_file() else []
        ends = {}
        for line in lines:
            end = json.loads(line)
            name = end.pop("name")
            ends[name] = End(**end)
        return ends, (done.stdout + done.stderr).decode("utf-8", "replace")[-2000:]


def read_reasons(path):
    """Returns the reasons of a results file: lines `NAME: reason`."""
    if not path.is_file():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))
