#!/bin/sh
# Plain sh: fills a template with variables of a file and of the environment.
set -eu

env_file=$1
template=$2
HOME_DIR=${HOME_DIR-/srv}

# The variables of the file, unless the environment has them.
while IFS='=' read -r name value || [ -n "$name" ]; do
    case $name in
        '' | \#*) continue ;;
    esac
    eval "already=\${$name+set}"
    if [ -z "${already:-}" ]; then
        case $value in
            \'*\') value=${value#?}; value=${value%?} ;;
            \"*\") value=${value#?}; value=${value%?} ;;
            *) eval "value=\"$value\"" ;;
        esac
        export "$name=$value"
    fi
done < "$env_file"

render() {
    while IFS= read -r line; do
        while :; do
            case $line in
                *'${'*'}'*) ;;
                *) break ;;
            esac
            before=${line%%'${'*}
            rest=${line#*'${'}
            name=${rest%%'}'*}
            after=${rest#*'}'}
            default=
            case $name in
                *:-*) default=${name#*:-}; name=${name%%:-*} ;;
            esac
            eval "value=\${$name:-}"
            [ -n "$value" ] || value=$default
            [ -n "$value" ] || echo "warning: $name is empty" >&2
            line=$before$value$after
        done
        printf '%s\n' "$line"
    done
}

render < "$template" > app.conf
cat app.conf

old_ifs=$IFS
IFS=,
set -- $APP_LIST
IFS=$old_ifs
echo "$# items: first=$1 third='${3}'"
for item do printf '<%s>' "$item"; done; echo
echo "${APP_NAME#* } ${APP_NAME%% *} ${#APP_NAME} ${EMPTY:-empty} ${EMPTY-unset} ${NOPE:+x}${NOPE-nope}"
echo "${APP_HOST%.*} ${APP_HOST##*.} ${PWD##*/}"
: "${DEFAULTED:=value}" && echo "$DEFAULTED"
(APP_PORT=1; echo "sub $APP_PORT"); echo "outer $APP_PORT"
if [ "$APP_PORT" -gt 1024 ] && [ ! -d nope ] && [ -f app.conf -a -s app.conf ]; then echo "checked"; fi
i=0; while [ $i -lt 3 ]; do i=$((i + 1)); [ $i -eq 2 ] && continue; printf '%02d ' "$i"; done; echo
until [ $i -eq 0 ]; do i=$((i - 1)); done; echo "i=$i"
printf '%s|%5s|%-5s|%03d|%.2f|%%|%b|%x\n' a b c 7 3.14159 'tab\there' 255
echo "$(expr 3 + 4) $(expr length abc 2>/dev/null || echo 3) $(basename /a/b.txt .txt) $(dirname /a/b/c)"
