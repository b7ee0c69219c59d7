#!/usr/bin/env bash
set -euo pipefail

readonly SEMVER='^([0-9]+)\.([0-9]+)\.([0-9]+)(-([0-9A-Za-z.-]+))?$'
part=${1:-patch}; shift || true
pre=""
if [[ ${1-} == --pre ]]; then pre=$2; fi

current=$(sed -n '/^\[package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
[[ $current =~ $SEMVER ]] || { echo "no version: '$current'"; exit 65; }
IFS=. read -r major minor patch <<< "${current%%-*}"
case $part in
    major) major=$((major + 1)); minor=0 patch=0 ;;
    minor) let minor+=1; patch=0 ;;
    patch) ((++patch)) ;;
    *) echo "what is '$part'?" >&2; exit 64 ;;
esac
new="$major.$minor.$patch${pre:+-$pre.1}"
echo "$current -> $new"

escaped=${current//./\\.}
for file in Cargo.toml package.json README.md; do
    before=$(cksum < "$file")
    sed -i -E "s/(^|[^0-9.])${escaped}([^0-9]|$)/\1${new}\2/g" "$file"
    [[ $(cksum < "$file") == "$before" ]] && echo "unchanged: $file" || echo "changed: $file"
done
grep -n "$new" Cargo.toml package.json README.md

day=$(date -u -d '2024-02-28 +2 days' +%F)
sed -i "s/^## Unreleased\$/&\n\n## $new - $day/" CHANGELOG.md
sed -n '3,7p' CHANGELOG.md
awk -v v="$new" '$0 ~ "^## " v { found = 1; next } /^## / { found = 0 } found && NF' CHANGELOG.md > notes.txt
cat notes.txt
printf '%s\n' 1.10.0 1.9.3 1.10.0-rc.1 1.2.10 | sort -V | tr '\n' ' '; echo
date -u -d @1709164800 '+%Y-%m-%d %H:%M:%S %a %j'; date -u -d '2024-12-31T23:59:59Z' +%s
echo $((16#ff)) $((2 ** 10)) $((7 / 2)) $((-7 % 3)) $((1 << 4 | 3)) $((5 > 3 ? 1 : 0)) $((010))
x=5; ((x *= 2, x -= 1)); echo "$x $((x++)) $((++x))"; printf '%d %i %o %X %e\n' 42 -1 8 255 1234.5
