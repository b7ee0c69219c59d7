#!/bin/bash
# Counts the lines, words and characters of a text: of a file, or of standard input.
set -euo pipefail

file=${1:-}
if [[ -n $file && ! -r $file ]]; then
    echo "count.sh: cannot read $file" >&2
    exit 2
fi

# Without quotes, so that the three numbers become three words.
numbers=($(cat -- ${file:+"$file"} | wc -l -w -m))
echo "${numbers[0]} lines, ${numbers[1]} words, ${numbers[2]} characters"
