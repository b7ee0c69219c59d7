#!/usr/bin/env bash
set -euo pipefail
grep -v '/health' "$1" | awk '{ print $9 }' | sort | uniq -c | sort -rn
