"""Builds `target/components/python.wasm`, and `python.json` beside it: CPython as one component that behaves as `python3`.
And `python-packages`, the packages that its scripts import, with their list in `python-packages.json`.

    python3 components/python/build.py [--check]

`--check` says what is missing to build it, and builds nothing. Five stages, each made again only when something that it is made from has
changed: the tools, the standard library compiled by the interpreter itself, the memory image, the merge of its modules, and the packages.
All of it lies in `target/python`. `BLESS=1` writes the lists of packages that are in the repository.
"""

import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORK = ROOT / "target" / "python"
OUT = ROOT / "target" / "components"

sys.path.insert(0, str(HERE / "build"))
import merge  # noqa: E402
import packages  # noqa: E402


class Failed(Exception):
    pass


def main():
    check_prerequisites()
    if sys.argv[1:] == ["--check"]:
        return
    WORK.mkdir(parents=True, exist_ok=True)
    with open(WORK / "lock", "w") as lock:
        wait_for_others(lock)
        build()


def wait_for_others(lock):
    """Two builds at once would spoil each other's folders, as where one was ended and its parts go on."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("waiting for another build of the runtime ...", flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)


def build():
    tools = stage("tools", [HERE / "build/requirements.txt", HERE / "build/package.json", HERE / "build/package-lock.json"], make_tools)
    stdlib = stage("stdlib", [tools, HERE / "build/compile_stdlib.py", HERE / "wit"], make_stdlib)
    image = stage("image", [stdlib, HERE / "guest", HERE / "wit"], make_image)
    parts = ("merge", "calls", "component", "fold", "gaps", "immortal", "memory", "modes", "order", "roles", "wasm", "wrap")
    merging = [HERE / "build" / f"{name}.py" for name in parts] + [HERE / "build/order.txt"]
    merged = stage("merged", [image, *merging], make_merged)
    listed = [HERE / "packages" / name for name in ("requirements.txt", "sdists.txt")]
    made = stage("packages", [tools, HERE / "build/compile_packages.py", HERE / "build/packages.py", *listed, HERE / "wit"], make_packages)
    publish(WORK / merged)
    publish_packages(WORK / made)


def check_prerequisites():
    """Before anything is downloaded or built: what is missing, and how to get it."""
    problems = []
    if sys.version_info < (3, 9):
        problems.append("python3 is older than 3.9\n  fix: `apt install python3`, or https://www.python.org/downloads")
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        problems.append("python3 cannot make virtual environments\n  fix: `apt install python3-venv`")
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            what = f"{program} is not installed; binaryen, which merges the modules, is an npm package"
            problems.append(f"{what}\n  fix: `apt install nodejs npm`, or `brew install node`")
    if problems:
        raise Failed("\n".join(problems))


def stage(name, inputs, make):
    """Makes `target/python/NAME` unless it is there and made from just these inputs. Returns NAME, which later stages take as an input."""
    digest = hashlib.sha256(name.encode())
    for item in inputs:
        if isinstance(item, str):
            digest.update((WORK / item / "key").read_bytes())
            continue
        for path in sorted(item.rglob("*")) if item.is_dir() else [item]:
            if path.is_file() and path.suffix != ".pyc":
                digest.update(f"{path.relative_to(HERE)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    folder, key = WORK / name, digest.hexdigest()
    if (folder / "key").is_file() and (folder / "key").read_text() == key:
        return name
    print(f"{name} ...", flush=True)
    start = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    make(folder)
    # Last: a stage that was interrupted has no key.
    (folder / "key").write_text(key)
    print(f"{name} {time.monotonic() - start:.1f} s", flush=True)
    return name


def make_tools(folder):
    run(sys.executable, "-m", "venv", folder / "venv")
    strictly = ["--quiet", "--disable-pip-version-check", "--require-hashes", "--only-binary", ":all:"]
    run(python(folder), "-m", "pip", "install", *strictly, "-r", HERE / "build/requirements.txt")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / "build" / name, folder)
    run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent", cwd=folder)


def make_stdlib(folder):
    shutil.copy(HERE / "build/compile_stdlib.py", folder)
    componentize(folder, "compile_stdlib", folder / "unused.wasm")
    (folder / "unused.wasm").unlink()


def make_image(folder):
    shutil.copytree(HERE / "guest", folder / "app", ignore=shutil.ignore_patterns("__pycache__"))
    for path in (WORK / "stdlib").glob("stdlib.*"):
        shutil.copy(path, folder / "app")
    componentize(folder / "app", "app", folder / "python.wasm")


def make_merged(folder):
    order = (HERE / "build/order.txt").read_text().splitlines()
    component = merge.merge((WORK / "image/python.wasm").read_bytes(), folder, WORK / "tools/node_modules/.bin", order)
    for path in folder.glob("*.wasm"):
        path.unlink()
    (folder / "python.wasm").write_bytes(component)


def make_packages(folder):
    packages.install(folder, [python(WORK / "tools"), "-m", "pip"], run)
    shutil.copy(HERE / "build/compile_packages.py", folder)
    componentize(folder, "compile_packages", folder / "unused.wasm")
    (folder / "unused.wasm").unlink()


def componentize(app, module, output):
    # It would put the site-packages of whatever Python it finds on the guest's path; in an empty environment it finds none.
    nothing = WORK / "empty"
    (nothing / "lib/python3/site-packages").mkdir(parents=True, exist_ok=True)
    program = python(WORK / "tools").parent / "componentize-py"
    world = ["--quiet", "-d", HERE / "wit", "-w", "python"]
    run(program, *world, "componentize", module, "-p", ".", "-o", output, cwd=app, env={**os.environ, "VIRTUAL_ENV": str(nothing)})


def python(folder):
    return folder / "venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def publish(merged):
    component = (merged / "python.wasm").read_bytes()
    facts = {
        "name": "python",
        "version": (WORK / "stdlib/stdlib.version").read_text(),
        "programs": ["python3", "python", "python3.14"],
        "wasm": "python.wasm",
        "size": len(component),
        "digest": "sha256:" + hashlib.sha256(component).hexdigest(),
        # With less, deep recursion hits the stack's limit before CPython says RecursionError: `repr` of nested deques needs more than 80 MiB.
        "limits": {"stack": "128MiB"},
        # A folder beside it, where there is one, for /usr/lib/python3.14/site-packages.
        "packages": "python-packages",
    }
    OUT.mkdir(parents=True, exist_ok=True)
    for name, content in (("python.wasm", component), ("python.json", json.dumps(facts, indent=2).encode() + b"\n")):
        if not (OUT / name).is_file() or (OUT / name).read_bytes() != content:
            (OUT / f".{name}").write_bytes(content)
            os.replace(OUT / f".{name}", OUT / name)
    print(f"target/components/python.wasm: CPython {facts['version']}, {facts['size'] / (1 << 20):.1f} MiB, {facts['digest']}")


def publish_packages(made):
    found = packages.facts(made / "site")
    problem = packages.check_lists(found, os.environ.get("BLESS") == "1")
    if problem:
        raise Failed(problem)
    folder, copied = OUT / "python-packages", made / "copied"
    if not (copied.is_file() and folder.is_dir()):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(made / "site", folder)
        copied.touch()
    (OUT / "python-packages.json").write_text(json.dumps(found, indent=2) + "\n")
    print(f"target/components/python-packages: {len(found)} packages, {sum(p.stat().st_size for p in folder.rglob('*')) / (1 << 20):.1f} MiB")


def run(*command, **options):
    words = [str(word) for word in command]
    if subprocess.run(words, **options).returncode:
        raise Failed(f"`{' '.join(words)}` failed; what it said is above")


if __name__ == "__main__":
    try:
        main()
    except (Failed, subprocess.CalledProcessError) as error:
        sys.exit(f"error: {error}")
