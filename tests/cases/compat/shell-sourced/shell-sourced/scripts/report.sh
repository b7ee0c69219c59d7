#!/usr/bin/env bash
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
. "$HERE/../lib/log.sh"
[ -f "$HERE/extra" ] && source scripts/format

print_total() {
  log_info "$(as_table "$1")"
}

log_error "broken" || print_total 1
undefined_function
bash -c 'log_info nested'
