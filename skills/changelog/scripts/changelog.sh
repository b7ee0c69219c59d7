#!/usr/bin/env bash
# Writes a section of a changelog from a log, a repository or a folder of fragments.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
  cat <<'HELP'
usage: changelog.sh [--log FILE | --fragments DIR] (--version VERSION | --next) [options]

  --log FILE         output of `git log`; - is standard input
  --fragments DIR    folder of files ISSUE.KIND.md
                     (without both: the log of this repository since its last tag)
  --version VERSION  the new version
  --after VERSION    the previous version, for --next
  --next             only print the next version
  --date DATE        date of the release (default: today)
  --repo URL         target of links, such as https://github.com/OWNER/NAME
  --output FILE      insert the section into this file instead of printing it
  --all              also list internal changes
HELP
}

die() {
  printf 'changelog.sh: %s\n' "$*" >&2
  exit 2
}

declare -A option=([date]=$(date +%F))
pass=()
while (($#)); do
  case $1 in
    --log | --fragments | --version | --after | --date | --repo | --output)
      [[ $# -gt 1 ]] || die "$1 needs a value"
      option[${1#--}]=$2
      shift
      ;;
    --next | --all) pass+=("$1") ;;
    -h | --help) usage; exit 0 ;;
    *) die "unknown option $1 (see --help)" ;;
  esac
  shift
done
[[ -z ${option[log]:-} || -z ${option[fragments]:-} ]] || die "--log and --fragments cannot be combined"
[[ ${option[date]} =~ ^[0-9]{4}-[0-9]{2}-[0-9]{2}$ ]] || die "--date must be a date such as 2024-10-10, not '${option[date]}'"
if [[ ${pass[*]:-} != *--next* ]]; then
  [[ -n ${option[version]:-} ]] || die "--version or --next is required"
fi

if [[ -n ${option[fragments]:-} ]]; then
  source=(--fragments "${option[fragments]}")
elif [[ -n ${option[log]:-} ]]; then
  source=(--log "${option[log]}")
else
  command -v git > /dev/null || die "git is not available: export the log with \`git log > log.txt\` and use --log"
  last=$(git describe --tags --abbrev=0 2> /dev/null || true)
  git log ${last:+"$last..HEAD"} > "${TMPDIR:-/tmp}/changelog-$$.txt"
  trap 'rm -f "${TMPDIR:-/tmp}/changelog-$$.txt"' EXIT
  source=(--log "${TMPDIR:-/tmp}/changelog-$$.txt")
  : "${option[after]:=${last#v}}"
fi

for key in version after date repo output; do
  [[ -z ${option[$key]:-} ]] || pass+=("--$key" "${option[$key]}")
done
python3 "$here/changelog.py" "${source[@]}" ${pass[@]+"${pass[@]}"}
