#!/bin/bash
# lines, TODOs and path of each file of a folder
set -euo pipefail
root="${1:?folder}"
find "$root" -type f | sort | while read -r file; do
    lines=$(wc -l < "$file")
    todos=$(grep -c TODO "$file" || true)
    printf '%d\t%d\t%s\n' "$lines" "$todos" "$file"
done
