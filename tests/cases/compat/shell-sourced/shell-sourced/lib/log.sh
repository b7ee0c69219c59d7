log_info() { stamp; printf '%s\n' "$*"; }
log_error() { log_info "error: $*" >&2; }
# Defined in the script that sources this one.
trap 'print_total 0' EXIT
