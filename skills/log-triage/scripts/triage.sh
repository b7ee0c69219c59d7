#!/usr/bin/env bash
# Summarises log files: errors, when and where they happen, and slow requests.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/lib/read.sh"
source "$here/lib/print.sh"

usage() {
  cat <<'HELP'
usage: triage.sh [options] FILE... (- is standard input)

  -s, --since TIME   only lines from this time on, such as 2024-10-10T13:00
  -u, --until TIME   only lines before this time
  -S, --slow MS      duration from which requests are slow (default: 1000)
  -n, --top N        maximum entries per list (default: 10)
  -j, --json         print JSON
HELP
}

fail() {
  echo "triage.sh: $1" >&2
  exit 2
}

since="" until="" slow=1000 top=10 json=false files=()
while (($#)); do
  case $1 in
    -s | --since | -u | --until | -S | --slow | -n | --top)
      (($# > 1)) || fail "$1 needs a value"
      ;;&
    -s | --since) since=$2; shift ;;
    -u | --until) until=$2; shift ;;
    -S | --slow) slow=$2; shift ;;
    -n | --top) top=$2; shift ;;
    -j | --json) json=true ;;
    -h | --help) usage; exit 0 ;;
    -) files+=(-) ;;
    -*) fail "unknown option $1 (see --help)" ;;
    *) files+=("$1") ;;
  esac
  shift
done
((${#files[@]})) || { usage >&2; exit 2; }
[[ $slow =~ ^[0-9]+$ ]] || fail "--slow must be a number of milliseconds, not '$slow'"
[[ $top =~ ^[1-9][0-9]*$ ]] || fail "--top must be a number above 0, not '$top'"
for time in "$since" "$until"; do
  [[ -z $time || $time =~ ^[0-9]{4}-[0-9]{2}-[0-9]{2}([T\ ][0-9]{2}(:[0-9]{2}){0,2})?$ ]] ||
    fail "'$time' is not a time; write 2024-10-10 or 2024-10-10T13:00"
done
for file in "${files[@]}"; do
  [[ $file == - || -r $file ]] || fail "cannot read $file"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One record a line: time, level, status, milliseconds, method and path, message, with tabs between.
read_logs "${files[@]}" > "$work/all"
awk -F '\t' -v since="${since/ /T}" -v until="${until/ /T}" \
  '$1 >= since && (until == "" || $1 < until)' "$work/all" > "$work/records"

if ! [[ -s $work/records ]]; then
  if [[ -s $work/all ]]; then
    echo "triage.sh: no record between ${since:-the first} and ${until:-the last}" >&2
  else
    echo "triage.sh: no line looks like a log" >&2
  fi
  exit 1
fi

awk -F '\t' -v slow="$slow" -v dir="$work" -f "$here/lib/count.awk" "$work/records"
ignored=$(cat "$work/ignored")

if $json; then
  print_json
else
  print_text
fi
