#!/usr/bin/env bash
# Prints the fragments of a folder in the format of `git log`, so that the same code reads both.
#
#   collect.sh DIR        files named ISSUE.KIND.md or ISSUE.KIND-SCOPE.md, in the order of their issues
set -euo pipefail

dir=${1:?usage: collect.sh DIR}
[[ -d $dir ]] || { echo "collect.sh: $dir is not a folder" >&2; exit 2; }

find "$dir" -maxdepth 1 -type f -name '*.*.md' ! -name 'README.md' -print | sort -t / -k1,1 -V | while IFS= read -r file; do
  name=$(basename "$file" .md)
  issue=${name%%.*}
  kind=${name#*.}
  breaking=""
  if [[ $kind == *! ]]; then
    breaking="!"
    kind=${kind%!}
  fi
  [[ $kind == *-* ]] && kind="${kind%%-*}(${kind#*-})"
  printf 'commit %s\n' "$issue"
  printf 'Author: fragment <%s>\nDate:   -\n\n' "$name"
  # The first paragraph is the subject; the rest is the body.
  awk -v head="$kind$breaking: " '
    !body && /^[ \t]*$/ { if (subject != "") body = 1; next }
    !body { gsub(/^[ \t]+|[ \t]+$/, ""); subject = subject (subject == "" ? "" : " ") $0; next }
    { rest = rest "    " $0 "\n" }
    END { print "    " head subject; if (rest != "") printf "\n%s", rest }
  ' "$file"
  [[ $issue =~ ^[0-9]+$ ]] && printf '\n    Refs: #%s\n' "$issue"
  echo
done
