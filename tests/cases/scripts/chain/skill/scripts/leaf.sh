#!/bin/bash
n=0
while IFS= read -r line; do
    n=$((n + 1))
    echo "$n: $line (depth ${DEPTH:-?})"
done
echo "leaf err" >&2
python3 -c "import sys; sys.exit($1)"
exit $?
