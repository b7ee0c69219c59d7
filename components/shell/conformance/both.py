"""Runs commands in the sandbox and natively, in bubblewrap: without network, with a scratch home folder, as the same user in the same folders."""

import os
import pathlib
import resource
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
PROGRAMS = ROOT / "target/components"
# Seconds after which a command counts as one that does not end. The sandbox gets more, because it interprets.
NATIVE_TIMEOUT, SANDBOX_TIMEOUT = 10, 40
# Of the environment that the sandbox gives to scripts.
ENVIRONMENT = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC", "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "TMPDIR": "/tmp"}
POLICY = """limits: { memory: 1GiB, processes: 1000 }
default:
  allow: [Read, Write, Bash]
  symlinks: true
"""
SKILL = """---
name: skill
description: Runs scripts. Use when comparing shells.
allowed-tools: Read Write Bash
---
"""


class Both:
    """`folder` is scratch space."""

    def __init__(self, skillhost, programs, folder):
        if shutil.which("bwrap") is None:
            sys.exit("error: bwrap is missing; `apt install bubblewrap`")
        self.skillhost, self.programs = skillhost.resolve(), programs.resolve()
        self.policy = folder / "policy.yaml"
        self.policy.write_text(POLICY)

    def native(self, command, skill, workspace, stdin=b"", env=None, tools=None):
        """Returns exit code, stdout and stderr. `tools` are the only programs that the command finds, if they are given."""
        workspace.mkdir(parents=True)
        line = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"]
        line += ["--hostname", "sandbox", "--uid", "1000", "--gid", "1000"]
        line += ["--ro-bind", "/usr/bin", "/usr/bin"] if tools is None else ["--tmpfs", "/usr/bin"]
        for tool in tools or []:
            path = os.path.realpath(f"/usr/bin/{tool}")
            if os.path.exists(path):
                line += ["--ro-bind", path, f"/usr/bin/{tool}"]
        line += ["--symlink", "usr/bin", "/bin"]
        for path in ("/usr/lib", "/usr/lib64", "/usr/share", "/lib", "/lib64", "/etc/alternatives"):
            if os.path.exists(path):
                line += ["--ro-bind", path, path]
        # Whose name a user id has is read from there.
        line += ["--ro-bind", accounts(workspace.parent), "/etc/passwd", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
        line += ["--ro-bind", skill, "/skill", "--bind", workspace, "/workspace", "--remount-ro", "/", "--chdir", "/workspace"]
        for name, value in {**ENVIRONMENT, **(env or {})}.items():
            line += ["--setenv", name, value]
        return ended([*line, "--", *command], stdin, NATIVE_TIMEOUT)

    def sandboxed(self, words, skill, workspace, stdin=b""):
        """Runs `skillhost run` with `words` after the skill, and returns exit code, stdout and stderr."""
        workspace.mkdir(parents=True)
        line = [self.skillhost, "run", f"--policy={self.policy}", f"--workspace={workspace}", f"--audit={workspace}.jsonl"]
        line += [f"--programs={self.programs}", f"--timeout={SANDBOX_TIMEOUT}s", skill, *words]
        code, stdout, stderr = ended(line, stdin, 3 * SANDBOX_TIMEOUT)
        return ("timeout" if code == 124 else code), stdout, stderr


def accounts(folder):
    path = folder / "passwd"
    if not path.exists():
        path.write_text("user:x:1000:1000:user:/tmp:/bin/bash\n")
    return path


def ended(command, stdin, timeout):
    """Returns exit code, stdout and stderr of a command."""
    done = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=bound)
    try:
        stdout, stderr = done.communicate(stdin, timeout=timeout)
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


def reasons(path):
    """Returns the lines `NAME: REASON` of a list."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))
