"""Makes `order.txt` again: the functions of `shell.wasm` that starts run, by name, in the order of their first call.

    python3 components/shell/record_order.py [--skillhost target/release/skillhost]

Run it by hand on Linux, x86-64, when the interpreter or its patches have changed, then `cargo xtask components` again. It needs what that has made,
a host, and readelf; how it looks is told in components/python/build/record_order.py.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "components/python/build"))

from record_order import SKILL, called  # noqa: E402

NAMES = ROOT / "target/shell/names.txt"
# The most usual first: its functions lie closest together.
STARTS = {
    "hello": "echo hi\n",
    "usual": """
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
name="${1:-world}"; count=0
usage() { echo "usage: $0 [name]" >&2; exit 1; }
[[ "$name" == "-h" ]] && usage
if [ -f "$here/usual.sh" ]; then count=$((count + 1)); fi
items=(one two "three four")
for item in "${items[@]}"; do printf '%s\\n' "$item"; done
case "$name" in w*) echo "hello $name" ;; *) echo other ;; esac
while read -r line; do echo "> $line"; done <<< "a b"
cat <<EOF
$count ${#items[@]}
EOF
mkdir -p /tmp/x; echo data > /tmp/x/f; cat /tmp/x/f; rm -r /tmp/x
command -v python3 > /dev/null || true
""",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skillhost", metavar="PATH", type=pathlib.Path, default=ROOT / "target/release/skillhost", help="the host")
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "target/components", help="the folder of built-in programs")
    arguments = parser.parse_args()
    names, order = NAMES.read_text().splitlines(), {}
    with tempfile.TemporaryDirectory() as folder:
        home = pathlib.Path(folder)
        (home / "starts/scripts").mkdir(parents=True)
        (home / "starts/SKILL.md").write_text(SKILL)
        environment = {"HOME": folder, "PATH": os.environ["PATH"], "SKILLHOST_PROGRAMS": str(arguments.programs.resolve())}
        for name, code in STARTS.items():
            script = f"scripts/{name}.sh"
            (home / "starts" / script).write_text(code)
            command = [str(arguments.skillhost.resolve()), "run", str(home / "starts"), script]
            # The first time each may compile.
            subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            before = len(order)
            order.update(dict.fromkeys(names[index] for index in called(command, environment, len(names), module=0)))
            print(f"{name}: {len(order) - before} more functions")
    (HERE / "order.txt").write_text("".join(f"{name}\n" for name in order))


if __name__ == "__main__":
    sys.exit(main())
