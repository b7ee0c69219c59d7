# Prints the results. Sourced by triage.sh; the counts are in $work.

# Prints a list, sorted by count, then by text. Missing lists are empty.
ranked() {
  local file=$work/$1
  [[ -f $file ]] || return 0
  sort -t $'\t' -k1,1nr -k2 "$file" | head -n "$top"
}

total() {
  awk -F '\t' -v key="$1" '$1 == key { print $2 }' "$work/totals"
}

# Prints a bar of at most 30 characters.
bar() {
  local long=$((($1 * 30 + $2 - 1) / $2))
  printf '%*s' "$long" '' | tr ' ' '#'
}

heading() {
  printf '\n%s\n' "$1"
}

print_text() {
  local records errors
  records=$(total records) errors=$(total errors)
  printf '%d records from %s to %s\n' "$records" "$(total first)" "$(total last)"
  printf '%d errors, %d warnings, %d other lines\n' "$errors" "$(total warnings)" "$ignored"
  if [[ -f $work/classes ]]; then
    awk -F '\t' '{ printf "%s%s %d", (NR > 1 ? ", " : "status: "), $1, $2 } END { print "" }' "$work/classes"
  fi

  if [[ -f $work/errors ]]; then
    heading "top errors"
    ranked errors | while IFS=$'\t' read -r count what first last _; do
      printf '%6d  %s\n        %s' "$count" "$what" "$first"
      [[ $first == "$last" ]] || printf ' to %s' "$last"
      echo
    done
  fi
  local list title
  for list in failing refused; do
    [[ -f $work/$list ]] || continue
    title="failing requests (status 500 and above)"
    [[ $list == failing ]] || title="refused requests (status 400 to 499)"
    heading "$title"
    ranked "$list" | awk -F '\t' '{ printf "%6d of %d  %s\n", $1, $2, $3 }'
  done
  if [[ -f $work/slow ]]; then
    heading "slow requests ($(grep -c '' "$work/slow") of $(total timed) took $slow ms or more)"
    ranked slow | awk -F '\t' '{ printf "%6d ms  %s  %s %s\n", $1, $2, $3, $4 }'
  fi
  print_minutes
}

# Prints the busiest minutes and all bursts, sorted by time.
print_minutes() {
  local most minute lines bad burst
  most=$(sort -t $'\t' -k2,2nr "$work/minutes" | head -n 1 | cut -f 2)
  heading "records by minute (! is a burst of errors)"
  {
    sort -t $'\t' -k2,2nr -k1,1 "$work/minutes" | head -n "$top"
    awk -F '\t' '$4 == 1' "$work/minutes"
  } | sort -u | while IFS=$'\t' read -r minute lines bad burst; do
    printf '%s %s %6d  %4d errors  %s\n' "${burst/0/ }" "${minute/T/ }" "$lines" "$bad" "$(bar "$lines" "$most")" | sed 's/^1/!/; s/ *$//'
  done
}

# Prints a list as JSON, with these names of fields. Fields selected by the jq filter become numbers.
list_json() {
  local file=$1 names=$2 numbers=$3
  ranked "$file" | jq -R -s --arg names "$names" --arg numbers "$numbers" '
    ($names | split(" ")) as $names | ($numbers | split(" ")) as $numbers
    | split("\n") | map(select(. != "") | split("\t") as $fields
      | [range($names | length) as $i | {key: $names[$i], value: $fields[$i]}]
      | map(if .key as $k | $numbers | index([$k]) then .value = (.value | tonumber? // null) else . end)
      | from_entries)'
}

print_json() {
  jq -n \
    --argjson totals "$(jq -R -s 'split("\n") | map(select(. != "") | split("\t") | {key: .[0], value: (.[1] | tonumber? // .)}) | from_entries
      | {records, first, last, error_count: .errors, warning_count: .warnings}' "$work/totals")" \
    --argjson ignored "$ignored" \
    --argjson classes "$(if [[ -f $work/classes ]]; then cat "$work/classes"; fi | jq -R -s 'split("\n") | map(select(. != "") | split("\t") | {key: .[0], value: (.[1] | tonumber)}) | from_entries')" \
    --argjson errors "$(list_json errors 'count message first last example' 'count')" \
    --argjson failing "$(list_json failing 'count of request' 'count of')" \
    --argjson refused "$(list_json refused 'count of request' 'count of')" \
    --argjson slow "$(list_json slow 'ms time status request' 'ms status')" \
    --argjson minutes "$(sort "$work/minutes" | jq -R -s 'split("\n") | map(select(. != "") | split("\t") | {minute: .[0], records: (.[1] | tonumber), errors: (.[2] | tonumber), burst: (.[3] == "1")})')" \
    '$totals + {ignored: $ignored, status: $classes, errors: $errors, failing: $failing, refused: $refused, slow: $slow,
      bursts: [$minutes[] | select(.burst) | .minute], minutes: $minutes}'
}
