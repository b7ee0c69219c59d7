# Converts logs of all formats to records. Sourced by triage.sh.

read_logs() {
  local lib=${BASH_SOURCE[0]%/*}
  : > "$work/json"
  : > "$work/ignored"
  # Text lines become records at once; JSON lines are collected for jq.
  cat -- "$@" | tr -d '\r' | awk -v dir="$work" -f "$lib/lines.awk"
  if [[ -s $work/json ]]; then
    jq -R -r -f "$lib/records.jq" "$work/json" > "$work/from-json"
    grep -v '^ignored$' "$work/from-json" || true
    local broken
    broken=$(grep -c '^ignored$' "$work/from-json" || true)
    echo $(($(cat "$work/ignored") + broken)) > "$work/ignored"
  fi
}
