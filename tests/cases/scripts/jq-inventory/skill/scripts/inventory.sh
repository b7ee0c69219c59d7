#!/bin/bash
set -euo pipefail

command -v jq >/dev/null 2>&1 || { echo "jq is required" >&2; exit 1; }
FILE="$1"
ENVIRONMENT="${2:-prod}"

services=$(jq -c --arg env "$ENVIRONMENT" '[.services[] | select(.env == $env)]' "$FILE")
count=$(jq 'length' <<< "$services")
echo "$count services in $ENVIRONMENT"

jq -r 'sort_by(-.replicas)[] | [.name, .replicas, (.ports | map(tostring) | join("+")), (.owner.team // "nobody")] | @tsv' <<< "$services" |
while IFS=$'\t' read -r name replicas ports team; do
    printf '%-12s x%-2s %-8s %s\n' "$name" "$replicas" "${ports:--}" "$team"
done

mapfile -t names < <(jq -r '.[].name' <<< "$services")
echo "names: ${#names[@]}: ${names[*]@Q}"
for i in "${!names[@]}"; do
    if jq -e --argjson i "$i" '.[$i].owner == null' <<< "$services" > /dev/null; then
        echo "warning: ${names[$i]} has no owner"
    fi
done

jq -n --arg owner "$OWNER" --argjson n "$count" --rawfile raw "$FILE" '{owner: $owner, count: $n, bytes: ($raw | length), when: (1704067200 | todate)}' > meta.json
jq -s '.[0] * {services: (.[1].services | group_by(.env) | map({key: .[0].env, value: (map(.replicas) | add)}) | from_entries)}' meta.json "$FILE" | tee summary.json
jq -r '.services[] | .labels // {} | to_entries[] | "\(.key)=\(.value | ascii_upcase)"' "$FILE" | sort -u
jq -r '.services[0] | paths(type == "number") | map(tostring) | join(".")' "$FILE"
jq '[.services[].ports[]] | {min: min, max: max, sum: add, mean: (add / length), odd: map(select(. % 2 == 1))}' "$FILE"
echo '{"a": 1}{"a": 2.50}' | jq -s -c 'map(.a += 1) | reverse, (map(.a) | @json), (.[0] | has("b"))'
jq -R -s 'split("\n") | map(select(length > 0) | capture("(?<k>[a-z]+)=(?<v>.*)"))' <<< $'x=1\nkey=wert mit = drin'
jq -r '@csv "\([.services[] | .name, .replicas])", @sh "echo \(.services[3].name)", (.services[0].labels | @base64 "\(tojson)")' "$FILE"
jq '.services |= map(if .env == "dev" then .replicas = 0 else . end) | .services[2] | del(.owner, .labels)' "$FILE"
if ! jq . <<< '{broken' 2> /dev/null; then
    echo "broken JSON: exit $?"
fi
jq -r 'try error("x") catch "caught \(.)", ([limit(3; range(10))] | tostring), ("a,b" | split(",") | first), ({} | .a.b.c), (now | type)' <<< null
