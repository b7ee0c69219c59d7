#!/usr/bin/env bash
# A manifest of a tree: kinds, sizes, digests; then the same tree from an archive, compared.
set -euo pipefail
root=${1:?folder}

find "$root" -type f -print0 | sort -z | xargs -0 sha256sum > SHA256SUMS
cut -c 1-16,65- SHA256SUMS
sha256sum -c --quiet SHA256SUMS && echo "all good"
find "$root" -type f -name '*.txt' -exec basename {} \; | sort
find "$root" -type f -size 0 -exec echo "empty: {}" \;
find "$root" -maxdepth 1 -mindepth 1 ! -name '*.txt' | sort
find "$root" \( -name '*.dat' -o -name '.h*' \) -prune -print | sort
find "$root" -type d -exec sh -c 'echo "$1: $(ls -A "$1" | wc -l)"' _ {} \; | sort
while IFS= read -r -d '' file; do
    printf '%-24s %3s %s\n' "${file#"$root"/}" "$(stat -c %s "$file")" "$(base64 -w0 < "$file" | cut -c1-12)"
done < <(find "$root" -type f -print0 | sort -z)

md5sum < "$root/a.txt"; sha1sum "$root/a.txt"
base64 "$root/deep/er/bin.dat" | base64 -d | od -An -tx1 | tr -d ' \n'; echo
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
tar -czf "$work/tree.tgz" "$root"
tar -tzf "$work/tree.tgz" | grep -v '/$' | sort
mkdir "$work/out" && tar -xzf "$work/tree.tgz" -C "$work/out"
diff -r "$root" "$work/out/$root" && echo "tar: same"
(cd "$root" && zip -qr "$work/tree.zip" .) && unzip -q "$work/tree.zip" -d "$work/unzipped"
diff -r "$root" "$work/unzipped" && echo "zip: same"
gzip -c "$root/a.txt" > "$work/a.gz" && gunzip -c "$work/a.gz" && zcat "$work/a.gz" | cmp - "$root/a.txt" && echo "gzip: same"
ln_count=$(ls -l "$root" | grep -c '^-'); echo "$ln_count plain files"
cp -r "$root" copy && rm copy/empty && mv copy/a.txt copy/b.txt && touch copy/new && ls -1A copy
[[ $root/a.txt -ot copy/new || ! $root/a.txt -nt copy/new ]] && echo "older"
du -s "$root" > /dev/null && echo "$(realpath --relative-to=. "$root/deep/../a.txt")" && readlink -f "$root/a.txt" | sed "s|$PWD/||"
if cmp -s "$root/a.txt" "$root/empty"; then echo same; else echo "differ $?"; fi
chmod +x copy/b.txt && test -r copy/b.txt && echo readable
