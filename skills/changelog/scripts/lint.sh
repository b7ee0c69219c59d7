#!/usr/bin/env bash
# Checks a changelog: order of versions, valid dates, no empty sections, no duplicate versions, complete links.
set -euo pipefail

file=${1:-CHANGELOG.md}
[[ -r $file ]] || { echo "lint.sh: cannot read $file" >&2; exit 2; }

faults=0
fault() {
  echo "$file:$1: $2"
  faults=$((faults + 1))
}

previous=""
while IFS=: read -r number line; do
  if ! [[ $line =~ ^##\ \[?([0-9]+\.[0-9]+\.[0-9]+[-+.A-Za-z0-9]*)\]?(\ -\ (.+))?$ ]]; then
    [[ $line == '## Unreleased' || $line == '## [Unreleased]' ]] || fault "$number" "not a version: $line"
    continue
  fi
  version=${BASH_REMATCH[1]} date=${BASH_REMATCH[3]:-}
  if [[ -n $date ]] && ! [[ $date =~ ^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$ ]]; then
    fault "$number" "not a date: $date"
  fi
  if [[ $version == "$previous" ]]; then
    fault "$number" "duplicate version $version"
  elif [[ -n $previous && $(printf '%s\n%s\n' "$version" "$previous" | sort -V | tail -n 1) == "$version" ]]; then
    fault "$number" "version $version is below $previous"
  fi
  previous=$version
done < <(grep -n '^## ' "$file")

while IFS=: read -r number title; do
  fault "$number" "empty section: ${title#'### '}"
done < <(awk '
  /^##+ / { if (open) print open; open = "" }
  /^### / { open = NR ":" $0; next }
  NF { open = "" }
  END { if (open) print open }
' "$file")

while IFS=: read -r number _; do
  fault "$number" "an incomplete link"
done < <(grep -nE '\]\([^)]*$' "$file" || true)

if ((faults)); then
  echo "$faults fault$( ((faults == 1)) || echo s)"
  exit 1
fi
echo "$file: $(grep -c '^## ' "$file") versions, $(grep -cE '^[-*] ' "$file") entries"
