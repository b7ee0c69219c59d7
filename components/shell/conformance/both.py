"""Runs commands in the sandbox and natively, in bubblewrap: without network, with a scratch home folder, as the same user in the same folders."""

import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
PROGRAMS = ROOT / "target/components"
# Seconds after which a command counts as one that does not end. The sandbox gets more, because it interprets.
NATIVE_TIMEOUT, SANDBOX_TIMEOUT = 60, 60
# Of the environment that the sandbox gives to scripts.
ENVIRONMENT = {"LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "TMPDIR": "/tmp", "USER": "user"}
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


# Commands of the sandbox that a machine may lack or that differ there, as scripts that do the same.
SHIMS = {
    # A host that may not be reached refuses connections in the sandbox: natively too, every host is one where nothing listens.
    "curl": 'exec /opt/curl --resolve "*:80:127.0.0.1" --resolve "*:443:127.0.0.1" "$@"',
    "pip": 'exec python3 -m pip "$@"',
    "pip3": 'exec python3 -m pip "$@"',
    "python": 'exec python3 "$@"',
    **{f"python3.{minor}": 'exec python3 "$@"' for minor in range(8, 15)},
    "python3": 'PYTHONPATH=/packages LD_LIBRARY_PATH=/opt/python/lib exec /opt/python/bin/python3 "$@"',
    "uv": """verb=$1; shift
case $verb in pip) exec python3 -m pip "$@" ;; run) ;; *) echo "uv: not available" >&2; exit 2 ;; esac
script=
while [ $# -gt 0 ]; do
  case $1 in
  --) shift; break ;;
  -m | --module) shift; exec python3 -m "$@" ;;
  -s | --script) script=1; shift ;;
  --with | -w | --python | -p | --extra | --group | --project | --directory | --env-file | --with-requirements | --index-url | --package) shift 2 ;;
  -?*) shift ;;
  *) break ;;
  esac
done
case $script$1 in 1* | *.py | -) exec python3 "$@" ;; esac
exec "$@\"""",
    }


class Both:
    """`folder` is scratch space."""

    def __init__(self, skillhost, programs, folder, bound=None):
        self.bound = bound or bound_all
        self.shims = folder / "shims"
        self.shims.mkdir()
        for name, text in SHIMS.items():
            (self.shims / name).write_text(f"#!/bin/sh\n{text}\n")
            (self.shims / name).chmod(0o755)
        self.python = newest_python()
        if shutil.which("bwrap") is None:
            sys.exit("error: bwrap is missing; `apt install bubblewrap`")
        self.skillhost, self.programs = skillhost.resolve(), programs.resolve()
        self.policy = folder / "policy.yaml"
        self.policy.write_text(POLICY)

    def native(self, command, skill, workspace, stdin=b"", env=None, tools=None, files=None):
        """Returns exit code, stdout and stderr. `tools` are the only programs that the command finds, if they are given. `files` maps further
        paths to the files that are there."""
        workspace.mkdir(parents=True)
        line = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"]
        line += ["--hostname", "sandbox", "--uid", "1000", "--gid", "1000"]
        line += ["--ro-bind", "/usr/bin", "/usr/bin"] if tools is None else ["--tmpfs", "/usr/bin"]
        for tool in tools or []:
            # The sandbox has no other shell.
            path = os.path.realpath(f"/usr/bin/{'bash' if tool == 'sh' else tool}")
            if path.startswith("/usr/lib/"):
                # Such a program finds its own files next to it.
                line += ["--symlink", path, f"/usr/bin/{tool}"]
            elif os.path.exists(path):
                line += ["--ro-bind", path, f"/usr/bin/{tool}"]
        if tools is not None:
            for shim in sorted(self.shims.iterdir()):
                line += ["--ro-bind", shim, f"/usr/bin/{shim.name}"]
            line += ["--ro-bind", self.python, "/opt/python", "--ro-bind", "/usr/bin/curl", "/opt/curl"]
            line += ["--ro-bind", self.programs / "python-packages", "/packages"]
        line += ["--symlink", "usr/bin", "/bin"]
        for path in ("/usr/lib", "/usr/lib64", "/usr/share", "/lib", "/lib64", "/etc/alternatives"):
            if os.path.exists(path):
                line += ["--ro-bind", path, path]
        # Whose name a user id has is read from there.
        line += ["--ro-bind", accounts(workspace.parent), "/etc/passwd", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
        for path, file in (files or {}).items():
            line += ["--ro-bind", file, path]
        line += ["--ro-bind", skill, "/skill", "--bind", workspace, "/workspace", "--remount-ro", "/", "--chdir", "/workspace"]
        for name, value in {**ENVIRONMENT, **(env or {})}.items():
            line += ["--setenv", name, value]
        return ended([*line, "--", *command], stdin, NATIVE_TIMEOUT, self.bound)

    def sandboxed(self, words, skill, workspace, stdin=b""):
        """Runs `skillhost run` with `words` after the skill, and returns exit code, stdout and stderr."""
        workspace.mkdir(parents=True)
        line = [self.skillhost, "run", f"--policy={self.policy}", f"--workspace={workspace}", f"--audit={workspace}.jsonl"]
        # A skill at the root of a repository has all its files.
        line += [f"--programs={self.programs}", f"--timeout={SANDBOX_TIMEOUT}s", "--skill-size=256MiB", skill, *words]
        code, stdout, stderr = ended(line, stdin, 3 * SANDBOX_TIMEOUT, self.bound)
        return ("timeout" if code == 124 else code), stdout, stderr


def newest_python():
    """Returns the folder of the newest Python: what argparse prints depends on the version."""
    found = {pathlib.Path(sys.base_prefix): sys.version_info[:2]}
    for folder in [*pathlib.Path.home().glob(".pyenv/versions/3.*"), pathlib.Path("/usr/local"), pathlib.Path("/usr")]:
        for program in folder.glob("bin/python3.*"):
            number = program.name.removeprefix("python3.")
            if number.isdigit():
                found[folder] = max(found.get(folder, (3, 0)), (3, int(number)))
    return max(found, key=lambda folder: found[folder])


def accounts(folder):
    path = folder / "passwd"
    if not path.exists():
        path.write_text("root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000:user:/tmp:/bin/bash\n")
    return path


def ended(command, stdin, timeout, bound):
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


def bound_all():
    """Limits what a runaway script can cost this machine."""
    resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def parts(output):
    """Returns exit code and output of each part that ends with a line `@@NAME CODE@@`."""
    found, start = {}, 0
    for mark in re.finditer(r"\n@@(\S+) (\d+)@@\n", output):
        found[mark[1]] = (mark[2], output[start : mark.start()])
        start = mark.end()
    return found


def bound_core():
    """Limits nothing that `ulimit` of a test would show."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def reasons(path):
    """Returns the lines `NAME: REASON` of a list."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))


def check(path, differing, names):
    """Compares the list with what differs of `names`, and returns whether both are the same. With BLESS=1, writes the list."""
    known = reasons(path)
    if os.environ.get("BLESS") == "1":
        head = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")] if path.exists() else []
        body = [f"{name}: {known.get(name, 'it behaves differently')}" for name in differing]
        path.write_text("\n".join(head + [""] * bool(head) + body) + "\n", encoding="utf-8")
        return True
    for name in sorted(set(differing) - known.keys()):
        print(f"{name} differs, and {path.name} does not list it")
    for name in sorted(known.keys() - set(differing)):
        print(f"{name} agrees: remove it from {path.name}" if name in names else f"{path.name} lists {name}, which does not count")
    return known.keys() == set(differing)
