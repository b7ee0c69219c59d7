#!/usr/bin/env bash
# Prints the lines of a log that contain a text, with context.
#
#   around.sh [-c LINES] [-m MATCHES] FILE TEXT
set -euo pipefail

context=3 matches=5
while getopts ':c:m:' option; do
  case $option in
    c) context=$OPTARG ;;
    m) matches=$OPTARG ;;
    :) echo "around.sh: -$OPTARG needs a value" >&2; exit 2 ;;
    *) echo "around.sh: unknown option -$OPTARG" >&2; exit 2 ;;
  esac
done
shift $((OPTIND - 1))
if (($# != 2)); then
  echo "usage: around.sh [-c LINES] [-m MATCHES] FILE TEXT" >&2
  exit 2
fi
file=$1 text=$2
[[ -r $file ]] || { echo "around.sh: cannot read $file" >&2; exit 2; }

found=$(grep -c -F -i -e "$text" "$file" || true)
if ((found == 0)); then
  echo "no line of $file contains '$text'"
  exit 1
fi

number=0
while IFS=: read -r line _; do
  number=$((number + 1))
  echo "--- $file:$line ($number of $found)"
  first=$((line > context ? line - context : 1))
  # The line itself is marked. Long lines are truncated, because one may contain a whole request.
  sed -n "${first},$((line + context))p" "$file" | cut -c 1-400 |
    awk -v at=$((line - first + 1)) '{ print (NR == at ? "> " : "  ") $0 }'
done < <(grep -n -F -i -m "$matches" -e "$text" "$file")
