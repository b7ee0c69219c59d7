#!/bin/bash
# Makes the skeleton of a project.
set -euo pipefail

SCRIPT_DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
SKILL_DIR="$(dirname "$SCRIPT_DIR")"
RED='\033[0;31m'; GREEN='\033[0;32m'; NC='\033[0m'

log()  { echo -e "${GREEN}==>${NC} $*"; }
fail() { echo -e "${RED}error:${NC} $*" >&2; exit "${2:-1}"; }

usage() {
    cat <<USAGE
Usage: $(basename "$0") NAME [--lang LANG] [--with-tests] [--author NAME]

Languages: ${LANGS[*]}
USAGE
}

LANGS=(bash python node)
NAME="" LANG_CHOICE="bash" WITH_TESTS=false AUTHOR="${USER:-nobody}"
while [[ $# -gt 0 ]]; do
    case "$1" in
        --lang)       LANG_CHOICE="${2:?--lang needs a value}"; shift 2 ;;
        --with-tests) WITH_TESTS=true; shift ;;
        --author)     AUTHOR="$2"; shift 2 ;;
        -h|--help)    usage; exit 0 ;;
        -*)           usage >&2; fail "unknown option: $1" ;;
        *)            NAME="$1"; shift ;;
    esac
done
[ -n "$NAME" ] || fail "no name"
[[ "$NAME" =~ ^[a-z][a-z0-9-]*$ ]] || fail "'$NAME' is no good name"
[[ " ${LANGS[*]} " == *" $LANG_CHOICE "* ]] || fail "unknown language $LANG_CHOICE"
[ ! -e "$NAME" ] || fail "$NAME is there already"

module="${NAME//-/_}"
log "making ${NAME} (${LANG_CHOICE}, module ${module^^})"
mkdir -p "$NAME"/{src/"$module",docs}
$WITH_TESTS && mkdir "$NAME/tests"

cat > "$NAME/README.md" <<EOT
# ${NAME^}

A project of $AUTHOR. It costs \$0 and has \`code\`.

Made with $(echo "$LANG_CHOICE" | tr '[:lower:]' '[:upper:]').
EOT

cat > "$NAME/src/$module/__main__.py" <<'EOT'
import sys

print(f"Hello from ${not_expanded} {sys.argv[0]!r}")
EOT

cat > "$NAME/Makefile" <<-EOT
	all: test
	.PHONY: all
EOT

sed -e "s/{{YEAR}}/2024/; s/{{AUTHOR}}/${AUTHOR//\//\\/}/g" "$SKILL_DIR/templates/LICENSE.txt" > "$NAME/LICENSE"
if [ "$WITH_TESTS" = true ]; then
    for kind in unit integration; do
        printf 'def test_%s():\n    assert %d == %d\n' "$kind" "${#kind}" "$((2 + 2 - 4 + ${#kind}))" > "$NAME/tests/test_$kind.py"
    done
fi
touch "$NAME/docs/.gitkeep"
sed -i '2,$s/^all:/all: lint /; /PHONY/d' "$NAME/Makefile"
sed -i 's/^all: test$/&\n\t@echo done/' "$NAME/Makefile"

log "files:"
find "$NAME" -type f | sort | while IFS= read -r f; do
    printf '  %-40s %3d bytes\n' "$f" "$(wc -c < "$f")"
done
echo "next: cd ${NAME} && python3 -m $module"
