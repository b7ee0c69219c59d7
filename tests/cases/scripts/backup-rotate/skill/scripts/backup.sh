#!/usr/bin/env bash
# Copies a folder into numbered backups and keeps the newest of them.
set -Eeuo pipefail
shopt -s nullglob

verbose=0 keep=3 exclude=() src="" dst=""
usage() { echo "usage: ${0##*/} -s SRC -d DST [-k KEEP] [-x GLOB]... [-v]"; }
while getopts "s:d:k:x:vh" opt; do
  case "$opt" in
    s) src=$OPTARG ;;
    d) dst=$OPTARG ;;
    k) keep=$OPTARG ;;
    x) exclude+=("$OPTARG") ;;
    v) ((verbose += 1)) ;;
    h) usage; exit 0 ;;
    ?) usage >&2; exit 64 ;;
  esac
done
shift $((OPTIND - 1))
echo "left: $#"
[[ -d $src ]] || { echo "no folder: $src" >&2; exit 66; }

tmp=$(mktemp -d "${TMPDIR:-/tmp}/backup.XXXXXX")
cleanup() {
  local code=$?
  rm -rf -- "$tmp"
  ((verbose)) && echo "cleaned up, code $code"
  return 0
}
trap cleanup EXIT
trap 'echo "failed in line $LINENO" >&2' ERR

say() { if ((verbose > 0)); then printf '  %s\n' "$@"; fi; }

next=1
for existing in "$dst"/backup-*; do
  number=${existing##*backup-}
  number=$((10#$number))
  ((number >= next)) && next=$((number + 1))
done
target=$dst/$(printf 'backup-%03d' "$next")

find_args=()
for glob in ${exclude[@]+"${exclude[@]}"}; do
  find_args+=(! -name "$glob")
done
count=0
while IFS= read -r -d '' file; do
  relative=${file#"$src"/}
  mkdir -p "$tmp/$(dirname "$relative")"
  cp -p "$file" "$tmp/$relative"
  say "$relative"
  count=$((count + 1))
done < <(find "$src" -type f "${find_args[@]}" -print0 | sort -z)

mkdir -p "$dst"
cp -r "$tmp" "$target"
(cd "$target" && find . -type f ! -name .manifest | sort | sed 's|^\./||' > .manifest)
echo "$count files in $target"
cat "$target/.manifest"

all=("$dst"/backup-*)
remove=$((${#all[@]} - keep))
for ((i = 0; i < remove; i++)); do
  say "removing ${all[i]}"
  rm -r "${all[i]}"
done
ls "$dst"
diff -r "$dst/backup-002" "$target" > changes.txt || echo "differs: $?"
cut -c 1-60 changes.txt | head -5
[[ $(cat "$target/a.txt") == eins ]] && echo same
test -e "$target/x.log" || echo "excluded"
