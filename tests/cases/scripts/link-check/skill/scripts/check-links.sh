#!/usr/bin/env bash
# Checks the links between Markdown files; lists the hosts of the others.
set -uo pipefail

dir=${1:-.}
declare -A hosts=() seen=()
declare -i bad=0 good=0

anchors_of() {
  grep -E '^#+ ' "$1" | sed -E 's/^#+ +//' | tr '[:upper:]' '[:lower:]' | sed -e 's/[^[:alnum:] -]//g' -e 's/ /-/g'
}

check_local() {
  local from=$1 target=$2 path anchor=""
  path=${target%%#*}
  [[ $target == *#* ]] && anchor=${target#*#}
  if [[ -z $path ]]; then path=$from; else path=$(dirname "$from")/$path; fi
  if [[ ! -e $path ]]; then
    echo "✗ $from: $target"
    bad+=1
  elif [[ -n $anchor ]] && ! anchors_of "$path" | grep -qx -- "$anchor"; then
    echo "✗ $from: $target (no such heading)"
    bad+=1
  else
    good+=1
  fi
}

while IFS= read -r file; do
  while IFS= read -r link; do
    [[ -n ${seen["$file $link"]:-} ]] && continue
    seen["$file $link"]=1
    if [[ $link =~ ^(https?)://([^/]+)(/.*)?$ ]]; then
      host=${BASH_REMATCH[2]}
      hosts[$host]=$((${hosts[$host]:-0} + 1))
    elif [[ $link =~ ^[a-z]+: ]]; then
      echo "- ${link%%:*} link in ${file##*/}"
    else
      check_local "$file" "$link"
    fi
  done < <(grep -oE '\]\([^) ]+\)|<https?://[^>]+>|^\[[^]]+\]: .*' "$file" | sed -E 's/^\]\(//; s/\)$//; s/^<//; s/>$//; s/^\[[^]]+\]: //')
done < <(find "$dir" -name '*.md' -type f | LC_ALL=C sort)

for host in $(printf '%s\n' "${!hosts[@]}" | sort); do
  printf '%s: %d\n' "$host" "${hosts[$host]}"
done
echo "good: $good, bad: $bad"
((bad == 0)) || exit 1
