"""Updates `order.txt`, the names of the functions of `shell.wasm` that starts run, in the order of their first calls.

    python3 components/shell/record_order.py [--skillhost target/release/skillhost]

Run it by hand on Linux, x86-64, when the interpreter or its patches have changed, and then run `cargo xtask components` again. It requires the
output of that command, a host, and readelf. components/python/build/record_order.py describes the method.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "components/python/build"))

from record_order import record  # noqa: E402

NAMES = ROOT / "target/shell/names.txt"
# The most common start comes first, because its functions become adjacent.
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
    record(__doc__, NAMES, STARTS, "sh", 0, HERE / "order.txt")


if __name__ == "__main__":
    sys.exit(main())
