echo "sourced with $1 in ${BASH_SOURCE[0]##*/}"
greet() { local who=${1:-niemand}; printf 'Hallo, %s! %s\n' "$who" "${FUNCNAME[0]}"; }
