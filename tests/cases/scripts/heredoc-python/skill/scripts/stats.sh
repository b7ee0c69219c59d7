#!/bin/bash
# Numbers of a file: the shell gathers them, Python calculates.
set -euo pipefail
FILE="${1:-/dev/stdin}"
export PRECISION="${PRECISION:-2}"

numbers=$(grep -E '^-?[0-9]+(\.[0-9]+)?$' "$FILE" || true)
[ -n "$numbers" ] || { echo "no numbers"; exit 1; }

python3 - "$FILE" $numbers <<'EOF'
import os
import statistics
import sys

name, *values = sys.argv[1:]
values = [float(v) for v in values]
digits = int(os.environ["PRECISION"])
print(f"{name}: n={len(values)} mean={statistics.mean(values):.{digits}f} max={max(values):g} – über alles")
print(repr(sys.argv[0]), __name__)
EOF

total=$(python3 -c "print(sum(map(float, '''$numbers'''.split())))")
echo "total $total"
echo "$numbers" | python3 -c '
import sys
for line in sys.stdin:
    print(float(line) ** 2)
' | sort -n | head -2

json=$(python3 <<EOF
import json
print(json.dumps({"file": "$FILE", "count": $(wc -l <<< "$numbers"), "list": [$(paste -sd, <<< "$numbers")]}))
EOF
)
echo "$json" | python3 -m json.tool --indent 1
jq -r '"\(.file) has \(.count)"' <<< "$json"

if ! python3 -c 'import sys; sys.exit(3)'; then
    echo "python failed"
fi
set +e
python3 -c 'raise SystemExit(7)'; echo "code $?"
printf 'a\nb\n' | python3 -c 'import sys; print(sys.stdin.read().upper()); sys.exit(5)' | cat
echo "pipe: ${PIPESTATUS[*]}"
set -e
VAR=inner python3 -c 'import os; print(os.environ["VAR"], "VAR" in os.environ)'
echo "${VAR:-unset}"
while read -r n; do
    python3 -c "print($n * 2)" < /dev/null
done <<< "$numbers"
python3 -c 'import sys; print(sys.argv)' "a b" '' '$x' "ü" > args.txt
cat args.txt
