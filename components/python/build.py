"""Builds the parts of the Python runtime that need Python to be built: `target/python/image/python.wasm`, CPython as one component with its
memory image, which `cargo xtask python` then transforms; and `target/components/python-packages`, the packages that scripts import, with
their list in `python-packages.json`.

    python3 components/python/build.py [--check]

`--check` only reports missing prerequisites. The build has five stages: the tools, the standard library (compiled by the interpreter
itself), the C libraries, the memory image, and the packages. A stage runs only if one of its inputs has changed. `BLESS=1` writes the lists of packages in
the repository. The compiler of the C libraries is the one of the JavaScript runtime, which `cargo xtask python` fetches.
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
import native  # noqa: E402
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
    """Waits for other builds, which would write to the same folders. Child processes of a killed build may still be running."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("waiting for another build of the runtime ...", flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)


def build():
    tools = stage("tools", [HERE / "build/requirements.txt", HERE / "build/package.json", HERE / "build/package-lock.json"], build_tools)
    stdlib = stage("stdlib", [tools, HERE / "build/compile_stdlib.py", HERE / "wit"], build_stdlib)
    compiled = stage("native", [HERE / "build/native.py", HERE / "native", ROOT / "components/javascript/compiler.txt"], build_native)
    stage("image", [stdlib, compiled, HERE / "build/fixed.c", HERE / "guest", HERE / "wit"], build_image)
    listed = [HERE / "packages" / name for name in ("requirements.txt", "sdists.txt")]
    built = stage("packages", [tools, HERE / "build/compile_packages.py", HERE / "build/packages.py", *listed, HERE / "packages/own", HERE / "wit"], build_packages)
    publish_packages(WORK / built)


def check_prerequisites():
    """Checks that the prerequisites are installed, before anything is downloaded or built. Reports all that are missing, with fixes."""
    problems = []
    if sys.version_info < (3, 9):
        problems.append("python3 is older than 3.9\n  fix: `apt install python3`, or https://www.python.org/downloads")
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        problems.append("python3 cannot create virtual environments\n  fix: `apt install python3-venv`")
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            problem = f"{program} is not installed; it is required for binaryen, an npm package that optimises the image"
            problems.append(f"{problem}\n  fix: `apt install nodejs npm`, or `brew install node`")
    if problems:
        raise Failed("\n".join(problems))


def stage(name, inputs, build):
    """Builds `target/python/NAME`, unless it was built from the same inputs. Returns NAME, which later stages take as an input."""
    digest = hashlib.sha256(name.encode())
    for item in inputs:
        if isinstance(item, str):
            digest.update((WORK / item / "key").read_bytes())
            continue
        for path in sorted(item.rglob("*")) if item.is_dir() else [item]:
            if path.is_file() and path.suffix != ".pyc":
                digest.update(f"{os.path.relpath(path, HERE)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    folder, key = WORK / name, digest.hexdigest()
    if (folder / "key").is_file() and (folder / "key").read_text() == key:
        return name
    print(f"{name} ...", flush=True)
    start = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    build(folder)
    # The key is written last, so that an interrupted stage has none.
    (folder / "key").write_text(key)
    print(f"{name} {time.monotonic() - start:.1f} s", flush=True)
    return name


def build_tools(folder):
    run(sys.executable, "-m", "venv", folder / "venv")
    strictly = ["--quiet", "--disable-pip-version-check", "--require-hashes", "--only-binary", ":all:"]
    run(python(folder), "-m", "pip", "install", *strictly, "-r", HERE / "build/requirements.txt")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / "build" / name, folder)
    run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent", cwd=folder)


def build_stdlib(folder):
    shutil.copy(HERE / "build/compile_stdlib.py", folder)
    componentize(folder, "compile_stdlib", folder / "unused.wasm")
    (folder / "unused.wasm").unlink()


def build_native(folder):
    compiler = ROOT / "target/javascript/compiler/environment/bin/python"
    if not compiler.is_file():
        raise Failed(f"the C compiler {compiler} is missing\n  fix: `cargo xtask python`, which fetches it")
    native.build(folder, [compiler, "-m", "ziglang"], run, output)


def build_image(folder):
    shutil.copytree(HERE / "guest", folder / "app", ignore=shutil.ignore_patterns("__pycache__"))
    for path in (WORK / "stdlib").glob("stdlib.*"):
        shutil.copy(path, folder / "app")
    shutil.copy(WORK / "native" / native.MODULE, folder / "app/_skillhost")
    componentize(folder / "app", "app", folder / "python.wasm")


def build_packages(folder):
    packages.install(folder, [python(WORK / "tools"), "-m", "pip"], run)
    shutil.copy(HERE / "build/compile_packages.py", folder)
    componentize(folder, "compile_packages", folder / "unused.wasm")
    (folder / "unused.wasm").unlink()


def componentize(app, module, output):
    # componentize-py would put the site-packages of the Python that it finds on the guest's path. An empty environment has none.
    empty = WORK / "empty"
    (empty / "lib/python3/site-packages").mkdir(parents=True, exist_ok=True)
    program = python(WORK / "tools").parent / "componentize-py"
    world = ["--quiet", "-d", HERE / "wit", "-w", "python"]
    fixed = app / "fixed.so"
    run("cc", "-shared", "-fPIC", "-O1", "-o", fixed, HERE / "build/fixed.c", "-ldl")
    # The guest sees the times of these files, and the interpreter remembers those of folders.
    for path in [app, *app.rglob("*")]:
        os.utime(path, (0, 0))
    settings = {"VIRTUAL_ENV": str(empty), "LD_PRELOAD": str(fixed)}
    run(program, *world, "componentize", module, "-p", ".", "-o", output, cwd=app, env={**os.environ, **settings})


def python(folder):
    return folder / "venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def publish_packages(built):
    found = packages.describe(built / "site")
    problem = packages.check_lists(found, os.environ.get("BLESS") == "1")
    if problem:
        raise Failed(problem)
    OUT.mkdir(parents=True, exist_ok=True)
    folder, copied = OUT / "python-packages", built / "copied"
    if not (copied.is_file() and folder.is_dir()):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(built / "site", folder)
        copied.touch()
    (OUT / "python-packages.json").write_text(json.dumps(found, indent=2) + "\n")
    print(f"target/components/python-packages: {len(found)} packages, {sum(p.stat().st_size for p in folder.rglob('*')) / (1 << 20):.1f} MiB")


def run(*command, **options):
    words = [str(word) for word in command]
    if subprocess.run(words, **options).returncode:
        raise Failed(f"`{' '.join(words)}` failed; its output is above")


def output(*command):
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    try:
        main()
    except (Failed, subprocess.CalledProcessError) as error:
        sys.exit(f"error: {error}")
