#!/usr/bin/env bash
set -euo pipefail
SCRIPT_DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
API=${API:-https://api.example.io/v1}

usage() {
  cat <<EOF
usage: docker run this
see https://docs.example.io
EOF
  exit 1
}

[[ $# -gt 0 ]] || usage
command -v gh >/dev/null || echo "gh is missing; brew install gh"
for f in *.txt; do
  grep -q x "$f" && sed -i 's/a/b/' "$f" | sort -u
  node "$SCRIPT_DIR/render.js" "$f"
done
case "$1" in
  docker|list) jq -r '.[]' < "$1" ;;
  *) usage ;;
esac
curl -s -H "Accept: application/json" "https://api.test.io/items?q=$1" -o out.json
python3 - <<'PY'
import requests
import pandas
PY
python3 -c 'import numpy; print(1)'
find . -name '*.md' -exec pandoc {} \; -print0 | xargs -0 -n 1 wc -l
timeout 5 tmux ls || true
bash -c 'kubectl get pods'
unheard-of --flag
