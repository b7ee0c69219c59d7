#!/bin/bash
# A hook: reads the call of a tool on stdin, and ends with 2 to forbid it.
input=$(cat)
tool=$(echo "$input" | jq -r '.tool_name // empty')
command=$(echo "$input" | jq -r '.tool_input.command // ""')

deny() {
    jq -n --arg reason "$1" '{hookSpecificOutput: {permissionDecision: "deny", permissionDecisionReason: $reason}}'
    echo "Blocked: $1" >&2
    exit 2
}

log_dir="${CLAUDE_PROJECT_DIR:-$PWD}/.hooks"
mkdir -p "$log_dir"
printf '%s\t%s\n' "$tool" "${command:0:40}" >> "$log_dir/log.tsv"

[ "$tool" = "Bash" ] || exit 0

IFS=$'\n' read -r -d '' -a parts < <(echo "$command" | sed -E 's/ *(&&|\|\||;|\|) */\n/g'; printf '\0')
echo "${#parts[@]} commands"
for part in "${parts[@]}"; do
    # The first word, without assignments before it.
    while [[ $part =~ ^[A-Za-z_]+=[^\ ]*\ (.*)$ ]]; do part=${BASH_REMATCH[1]}; done
    read -r program rest <<< "$part"
    echo "- $program: $rest"
    case "$program" in
        rm)
            if [[ $rest == *-rf* && $rest =~ (^|[[:space:]])/([^t]|$) ]]; then deny "rm -rf of /"; fi
            ;;
        git)
            if grep -qE '(^| )(--force|-f)( |$)' <<< "$rest"; then deny "git push --force: ‘$rest’"; fi
            ;;
        curl | wget) deny "network" ;;
    esac
done
exit 0
