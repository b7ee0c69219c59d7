#--- a script with a usage
usage() { cat <<EOF
Usage: ${0##*/} [-n NAME] FILE
EOF
exit "${1:-0}"; }
while getopts 'n:h' opt; do case $opt in n) NAME=$OPTARG ;; h) usage ;; *) usage 2 ;; esac; done; shift $((OPTIND - 1)); [ $# -ge 1 ] || usage 1
#--- checks for commands
for c in grep sed nosuch_tool; do if command -v "$c" >/dev/null 2>&1; then echo "have $c"; else echo "need $c" >&2; echo "lack $c"; fi; done
#--- colours and logs
RED='\033[0;31m'; NC='\033[0m'; echo -e "${RED}error${NC} text"; info() { printf '[INFO] %s\n' "$*"; }; err() { printf '[ERR] %s\n' "$*" >&2; }; info started 1; err bad
#--- default configuration
: "${PORT:=8080}" "${HOST:=localhost}"; echo "$HOST:$PORT"; DEBUG=${DEBUG:-false}; if [ "$DEBUG" = true ]; then echo dbg; fi; URL="${BASE_URL:-https://example.com}/v1"; echo "$URL"
#--- retry loop
attempt=0; until [ $attempt -ge 3 ] || false; do attempt=$((attempt + 1)); echo "try $attempt"; done; echo "gave up after $attempt"
#--- reading a dotenv file
printf 'A=1\n# no\nB="two words"\nexport C=3\n' > .env; set -a; source .env; set +a; echo "$A $B $C"; bash -c 'echo $B'
#--- parsing key values
while IFS=': ' read -r key value; do [ -z "$key" ] && continue; printf '%s -> %s\n' "$key" "$value"; done <<'EOF'
name: demo
version: 1.2.3
EOF
#--- frontmatter of a file
printf -- '---\nname: x\ndesc: a b\n---\nbody\n---\nmore\n' > S.md; awk '/^---$/ {n++; next} n == 1' S.md; sed -n '/^---$/,/^---$/p' S.md | head -n 2; sed '1,/^---$/d; 1,/^---$/d' S.md | tail -n 1
#--- counting extensions
touch a.py b.py c.sh d; find . -type f -name '*.*' | sed 's/.*\.//' | sort | uniq -c | sort -rn | awk '{print $2": "$1}'
#--- renaming many
touch 'photo 1.JPG' 'photo 2.JPG'; for f in *.JPG; do mv "$f" "$(echo "$f" | tr 'A-Z ' 'a-z_')"; done; ls
#--- report from a log
cat > app.log <<'EOF'
2024-01-01 10:00:00 ERROR db down
2024-01-01 10:01:00 INFO ok
2024-01-02 11:00:00 ERROR net down
EOF
grep ERROR app.log | awk '{print $1}' | sort | uniq -c | while read -r n day; do echo "$day had $n"; done; awk '{c[$3]++} END {for (k in c) print k, c[k]}' app.log | sort; grep -oE '[0-9]{4}-[0-9]{2}-[0-9]{2}' app.log | sort -u | tail -n 1
#--- json built by hand and read
name='a "quoted" one'; jq -n --arg n "$name" --argjson l "$(printf '%s\n' x y | jq -R . | jq -s .)" '{name: $n, list: $l}' > o.json; jq -r '.name' o.json; jq -r '.list | join(" ")' o.json
#--- json api answers
r='{"status":"ok","data":[{"id":7,"tags":["a","b"]},{"id":8,"tags":[]}]}'; if [ "$(echo "$r" | jq -r .status)" = ok ]; then echo "$r" | jq -r '.data[] | select(.tags | length > 0) | .id'; fi; echo "$r" | jq -e '.error' > /dev/null || echo 'no error'; echo "$r" | jq -r '.data[] | [.id, (.tags | join("|"))] | @tsv'
#--- http code taken apart
resp=$(printf 'body line\n200'); code=$(tail -n1 <<< "$resp"); body=$(sed '$d' <<< "$resp"); echo "$code"; echo "$body"; if [ "$code" -ge 200 ] && [ "$code" -lt 300 ]; then echo success; fi
#--- url encoding
urlencode() { local s=$1 o='' c i; for ((i = 0; i < ${#s}; i++)); do c=${s:i:1}; case $c in [a-zA-Z0-9.~_-]) o+=$c ;; *) printf -v c '%%%02X' "'$c"; o+=$c ;; esac; done; echo "$o"; }; urlencode 'a b&c=d/é' | cut -c1-12; jq -rn --arg v 'x y' '$v | @uri'
#--- temporary folder with cleanup
bash -c 'T=$(mktemp -d); trap "rm -rf \"$T\"" EXIT; echo data > "$T/f"; cat "$T/f"; echo "$T" > where'; [ -d "$(cat where)" ] || echo cleaned; rm where
#--- pid file
echo $$ > pid; [ "$(cat pid)" = "$$" ] && echo mine; kill -0 $$ && echo alive; rm pid
#--- version comparison
ge() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n1)" = "$2" ]; }; ge 1.10.0 1.9.0 && echo newer; ge 1.2 1.10 || echo older; v=v2.5.1; v=${v#v}; IFS=. read -r a b c <<< "$v"; echo "$a $b $((c + 1))"
#--- arguments passed on
run() { "$@"; }; run printf '<%s>' a 'b c'; echo; cmd=(echo -n 'x y'); "${cmd[@]}" z; echo; args=(); args+=(--flag); args+=("va lue"); printf '[%s]' "${args[@]}"; echo
#--- optional flags
verbose=1; echo ${verbose:+-v} end; opts=(); [ -n "$verbose" ] && opts+=(-v); echo "${opts[@]+"${opts[@]}"}" "${#opts[@]}"
#--- string tests
s=' padded '; t="${s#"${s%%[![:space:]]*}"}"; t="${t%"${t##*[![:space:]]}"}"; echo "[$t]"; [[ abc == *b* ]] && echo has; [[ -z ${x// } ]] && echo blank; case abc in (a*) echo starts ;; esac
#--- lists in strings
list='a,b,c'; IFS=, read -ra items <<< "$list"; for i in "${!items[@]}"; do echo "$i=${items[i]}"; done; printf -v joined '%s;' "${items[@]}"; echo "${joined%;}"
#--- membership
has() { local x=$1; shift; for e; do [[ $e == "$x" ]] && return 0; done; return 1; }; a=(x y z); has y "${a[@]}" && echo yes; has q "${a[@]}" || echo no; [[ " ${a[*]} " == *' z '* ]] && echo z
#--- a stack and a queue
s=(); s+=(1); s+=(2); echo "${s[-1]}"; unset 's[-1]'; echo "${#s[@]}"; q=(a b c); echo "${q[0]}"; q=("${q[@]:1}"); echo "${q[*]}"
#--- counting with an associative array
declare -A c; for w in a b a c a; do (( c[$w]++ )) || true; done; for k in "${!c[@]}"; do echo "$k ${c[$k]}"; done | sort
#--- exit codes kept
f() { return 42; }; f; rc=$?; echo $rc; if ! f; then echo "failed with $?"; fi; f || echo "or $?"; out=$(f) || echo "sub $?"; ! f; echo $?
#--- codes through a pipe
set -o pipefail; (exit 3) | cat; echo $?; (exit 3) | (exit 4) | true; echo $? "${PIPESTATUS[*]}"
#--- errors named by line
bash -c 'set -Eeuo pipefail
trap "echo \"line \$LINENO code \$?\"" ERR
echo one
false
echo two'; echo $?
#--- exit in the middle
bash -c 'f() { exit 5; }; f; echo never'; echo $?; (exit 300); echo $?; bash -c 'exit -1'; echo $?
#--- waiting for a condition
n=0; while ! [ -f flag ]; do n=$((n + 1)); [ $n -ge 3 ] && touch flag; done; echo $n
#--- output to several places
{ echo to out; echo to err >&2; } > o 2> e; cat o e; exec 5>&1; echo saved >&5; exec 5>&-; { echo a; echo b; } | tee t | wc -l; cat t
#--- appending both
echo 1 &> all; echo 2 &>> all; { echo 3; echo 4 >&2; } >> all 2>&1; cat all
#--- reading two files at once
printf '1\n2\n' > a; printf 'x\ny\n' > b; exec 3< a 4< b; while read -r p <&3 && read -r q <&4; do echo "$p$q"; done; exec 3<&- 4<&-
#--- reading two files of a loop at once
printf '1\n2\n' > a; printf 'x\ny\n' > b; while read -r p <&3 && read -r q <&4; do echo "$p$q"; done 3< a 4< b
#--- here document in a function
gen() { cat <<EOF
server $1 {
  port ${2:-80};
}
EOF
}; gen web; gen api 8080
#--- here document into a command
sort -r <<EOF | head -n 1
a
c
b
EOF
#--- quoting through layers
bash -c "echo \"a \$((1+1)) '\$HOME_X'\""; x='$(echo no)'; echo "$x"; eval "echo \"\$x\""; echo "it's" 'say "hi"' "a\\b" a\ b
#--- glob that finds nothing
shopt -s nullglob; files=(*.none); echo ${#files[@]}; shopt -u nullglob; for f in *.none; do [ -e "$f" ] || { echo none; continue; }; echo "$f"; done
#--- files with a loop and a counter
for i in 3 1 2; do echo "n$i" > "f$i.txt"; done; n=0; for f in f*.txt; do n=$((n + 1)); echo "$n:$(< "$f")"; done
#--- the newest file
touch -d '2020-01-01' old; touch -d '2021-01-01' new; ls -t | head -n 1; newest=; for f in old new; do [[ -z $newest || $f -nt $newest ]] && newest=$f; done; echo $newest
#--- sizes summed
printf 12345 > a; printf 123 > b; total=0; for f in a b; do s=$(stat -c %s "$f"); total=$((total + s)); done; echo $total; wc -c a b | tail -n 1 | awk '{print $1}'; du -b a | cut -f1
#--- numbers formatted
printf '%.1f%%\n' 45.678; awk 'BEGIN {printf "%.2f\n", 10/3}'; printf "%'d\n" 1234567 | tr -d ,; printf '%5.1f|\n' 3.14159; echo $(( 100 * 3 / 7 ))
#--- floating point with awk
a=1.5; b=2.25; awk -v a="$a" -v b="$b" 'BEGIN {print a + b; exit !(a < b)}' && echo less
#--- tables
printf '%-10s %5s\n' Name Qty; printf '%-10s %5d\n' apple 3 banana 12; printf '%s\t%s\n' a 1 bb 22 | column -t
#--- markdown from data
printf 'id,name\n1,ann\n2,bob\n' | awk -F, 'NR == 1 {print "| " $1 " | " $2 " |"; print "|---|---|"; next} {print "| " $1 " | " $2 " |"}'
#--- csv with quotes
printf '1,"a, b",x\n' | awk -v FPAT='([^,]+)|("[^"]+")' '{print NF}' > /dev/null; echo '"a","b"' | sed 's/"//g'; printf 'a,b\nc,d\n' | while IFS=, read -r x y; do printf '{"x":"%s","y":"%s"}\n' "$x" "$y"; done | jq -s -c .
#--- deduplicated lines in order
printf 'b\na\nb\nc\na\n' | awk '!s[$0]++'; printf 'b\na\nb\n' | sort | uniq -d; comm -13 <(printf 'a\nb\n') <(printf 'b\nc\n')
#--- text between marks
printf 'x\n<!-- begin -->\nkeep\n<!-- end -->\ny\n' > f; sed -n '/begin/,/end/{//!p}' f; awk '/end/ {p=0} p; /begin/ {p=1}' f
#--- lines replaced in a file
printf 'version = "1.0"\nname = "x"\n' > c.toml; sed -i 's/^version = .*/version = "2.0"/' c.toml; cat c.toml; sed -i '/^name/a extra = 1' c.toml; tail -n 2 c.toml; grep -q '^extra' c.toml || echo missing
#--- first match and its number
printf 'a\nb\nc\n' > f; grep -n b f | cut -d: -f1; line=$(grep -n c f | head -1 | cut -d: -f1); sed -n "${line}p" f; awk '/b/ {print NR; exit}' f; head -n $((line - 1)) f | tail -n 1
#--- case of words
echo 'hello world' | sed 's/\b\(.\)/\u\1/g'; echo 'hello' | awk '{print toupper(substr($0, 1, 1)) substr($0, 2)}'; w=hello; echo "${w^}"; echo 'Some Title Here' | tr '[:upper:] ' '[:lower:]-'
#--- slugs
slug() { echo "$1" | tr '[:upper:]' '[:lower:]' | sed -E 's/[^a-z0-9]+/-/g; s/^-+|-+$//g'; }; slug '  Hello, World!  '; slug 'A--B__C'
#--- padded and repeated
printf '=%.0s' {1..10}; echo; printf '%*s\n' 8 right; printf '%-8s|\n' left; head -c 5 < /dev/zero | tr '\0' '-'; echo; for i in $(seq -w 1 3); do printf '%s ' "$i"; done; echo
#--- hashes of strings
echo -n secret | sha256sum | cut -d' ' -f1; echo -n secret | md5sum | awk '{print $1}'; echo -n 'a:b' | base64; printf %s 'YTpi' | base64 -d; echo
#--- random names
n=$(head -c 8 /dev/urandom | od -An -tx1 | tr -d ' \n'); echo ${#n}; [ $RANDOM -ge 0 ] && echo ok; [[ $(date +%s%N) =~ ^[0-9]{19}$ ]] && echo stamp
#--- days between
d1=$(date -u -d 2024-01-01 +%s); d2=$(date -u -d '2024-01-01 +45 days' +%s); echo $(((d2 - d1) / 86400)); for i in 0 1 2; do date -u -d "2024-02-28 +$i days" +%F; done
#--- seconds in words
t=3725; printf '%02d:%02d:%02d\n' $((t / 3600)) $((t % 3600 / 60)) $((t % 60)); date -u -d @$t +%T
#--- folders walked by hand
mkdir -p p/q; touch p/1 p/q/2; walk() { local f; for f in "$1"/*; do if [ -d "$f" ]; then echo "D $f"; walk "$f"; else echo "F $f"; fi; done; }; walk p
#--- depth of a tree
mkdir -p a/b/c; find a -type d | awk -F/ '{if (NF > m) m = NF} END {print m}'; find . -type d -empty; find a -depth -type d | head -n 1
#--- archives of a folder made and listed
mkdir pkg; echo 1 > pkg/a; echo 2 > pkg/b; tar -czf p.tgz pkg && tar -tzf p.tgz | sort && rm -rf pkg && tar -xzf p.tgz && cat pkg/b; rm p.tgz
#--- scripts that call scripts
cat > lib.sh <<'EOF'
greet() { echo "Hello, $1"; }
EOF
cat > main.sh <<'EOF'
#!/usr/bin/env bash
set -euo pipefail
SCRIPT_DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source "$SCRIPT_DIR/lib.sh"
greet "${1:-nobody}"
bash "$SCRIPT_DIR/sub.sh" "$@"
EOF
echo 'echo "sub got $#: $*"; exit 2' > sub.sh
bash main.sh Ann x || echo "code $?"; bash main.sh || true
#--- scripts with carriage returns in the shebang
printf '#!/bin/bash\r\necho ok\n' > s.sh; bash s.sh; echo $?
#--- sourced twice
echo 'N=$((${N:-0} + 1))' > inc.sh; . ./inc.sh; . ./inc.sh; echo $N; [[ ${BASH_SOURCE[0]:-} == "${0}" ]] && echo main || echo sourced
#--- traps that stack up
bash -c 'trap "echo one" EXIT; trap "echo two" EXIT; echo body'; bash -c 'trap "echo x" EXIT; trap - EXIT; echo y'; bash -c '(trap "echo inner" EXIT; echo in); echo out'
#--- exit from a trap
bash -c 'trap "exit 7" ERR; false; echo no'; echo $?
#--- after a trap
bash -c 'trap "echo int" INT; kill -INT $$; echo after'
#--- jobs that fail
(exit 2) & a=$!; (exit 0) & b=$!; wait $a; echo $?; wait $b; echo $?; { sleep 0.1; exit 3; } & wait; echo $?
#--- parallel work collected
pids=(); for i in 1 2 3; do (echo "r$i" > "r$i") & pids+=($!); done; for p in "${pids[@]}"; do wait "$p"; done; cat r1 r2 r3; seq 4 | xargs -P 4 -I{} sh -c 'echo $(({} * 2))' | sort -n
#--- process ids
(echo sub) ; [ "$BASHPID" = "$$" ] && echo same; [[ $PPID =~ ^[0-9]+$ ]] && echo parent; echo ${BASH_VERSINFO[0]} | grep -cE '^[0-9]+$'
#--- seconds and dates of the shell
SECONDS=0; [ $SECONDS -lt 5 ] && echo quick; printf '%(%Y)T\n' 0; [ -n "$EPOCHSECONDS" ] && echo epoch
#--- letters of an option string
set -- -abc; while getopts abc o; do echo $o; done; echo $OPTIND; set -f; echo *; set +f; echo $- | grep -c f
#--- programs by their files
/bin/echo a | /usr/bin/cat; [ -x /usr/bin/env ] && echo env; ls /usr/bin | grep -cxE 'sed|sort|cd'; type -t cd cat; [ -e /usr/bin/nosuch ]; echo $?
#--- commands in subshells and pipelines
for i in 1 2; do echo $i | { cat; type -t grep; } | tr 1 x; (printf '%s\n' "$i"; cd / && pwd); done; enable | grep -cxE 'enable (cd|printf)'; printf '#!/usr/bin/awk -f\nBEGIN { print "awk" }\n' > a; awk -f a; nosuch 2>/dev/null; echo $?
#--- files in PATH that replace commands
mkdir bin; printf '#!/bin/sh\necho "mine $*"\n' > bin/tr; chmod +x bin/tr; PATH=$PWD/bin:$PATH
echo a | tr a b; echo a | command -p tr a b; command tr c; tr() { echo function; }; tr; unset -f tr; echo a | /usr/bin/tr a d; command -p nothere 2> /dev/null; echo $?
#--- pipes into scripts of PATH
mkdir bin; printf '#!/bin/bash\ncat; echo "arg $1"\n' > bin/show; chmod +x bin/show; PATH=$PWD/bin:$PATH
echo x | show 1; { echo y; } | show 2; for i in 1 2; do echo $i; done | show 3; show 4 < bin/show | show 5
#--- files that are no scripts
printf 'echo one \0 two\n' > b.sh; bash b.sh 2> /dev/null; echo $?; chmod +x b.sh; ./b.sh 2> /dev/null; echo $?; mkdir d; bash d 2> /dev/null; echo $?
