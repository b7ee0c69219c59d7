# The constructs and tools that the benchmark of the shell runs: NAME, the percentage of the shell scripts of public
# skills that use it (rough: some are estimates, not counts), and the smallest of its three sizes, which is the
# script's argument.
#--- echo 95 4000
for ((i=0;i<$1;i++)); do echo "line $i"; done
#--- subst-builtin 79 125
for ((i=0;i<$1;i++)); do x=$(echo $i); done
#--- subst-command 79 50
for ((i=0;i<$1;i++)); do x=$(basename /a/b$i.txt .txt); done
#--- test 62 4000
for ((i=0;i<$1;i++)); do if [ "$i" -gt 5 ] && [ -n "$i" ]; then :; fi; done
#--- test-file 62 2000
for ((i=0;i<$1;i++)); do [ -f nope ]; [ -d . ]; done
#--- echo-file 60 1000
for ((i=0;i<$1;i++)); do echo "line $i" >> out.txt; done
#--- echo-group-file 60 4000
for ((i=0;i<$1;i++)); do echo "line $i"; done > out.txt
#--- for-word 60 4000
for i in $(seq 1 $1); do :; done
#--- subst-pipe 59 50
for ((i=0;i<$1;i++)); do x=$(echo "a b $i" | cut -d" " -f3); done
#--- subst-pipe-sed 59 50
for ((i=0;i<$1;i++)); do x=$(echo "a b $i" | sed "s/a/b/" | tr a-z A-Z); done
#--- subst-cat-big 59 4000
seq 1 $1 > lines.txt; x=$(cat lines.txt); echo ${#x}
#--- default 55 4000
for ((i=0;i<$1;i++)); do x=${y:-d$i}; z=${x%1}; w=${x#d}; v=${x/d/e}; done
#--- big-var-subst 50 50
big=$(seq 1 $(( $1 * 20 ))); for ((i=0;i<$1;i++)); do x=$(echo $i); done
#--- dbracket 41 4000
for ((i=0;i<$1;i++)); do if [[ "$i" == *5 || -z "$i" ]]; then :; fi; done
#--- shift 40 1000
set -- $(seq 1 $1); n=0; while [ $# -gt 0 ]; do n=$((n+$1)); shift; done; echo $n
#--- printf 40 4000
for ((i=0;i<$1;i++)); do printf "%s %d\n" x $i; done
#--- basename 40 75
for ((i=0;i<$1;i++)); do basename /a/b/c.txt; dirname /a/b/c; done
#--- cat 40 10000
seq 1 $1 > lines.txt; cat lines.txt lines.txt | cat | wc -l
#--- case 38 4000
for ((i=0;i<$1;i++)); do case "$i" in *1) a=1;; [2-4]*) a=2;; *) a=3;; esac; done
#--- subst-func 35 125
f() { echo "$1"; }; for ((i=0;i<$1;i++)); do x=$(f $i); done
#--- while-count 35 4000
i=0; while [ $i -lt $1 ]; do i=$((i+1)); done
#--- while-read-file 35 2000
seq 1 $1 > lines.txt; while read -r l; do :; done < lines.txt
#--- while-read-echo 35 2000
seq 1 $1 > lines.txt; while IFS= read -r l; do echo "$l"; done < lines.txt
#--- while-read-pipe 35 2000
seq 1 $1 > lines.txt; cat lines.txt | while read -r l; do :; done
#--- while-read-fields 35 2000
for ((i=0;i<$1;i++)); do printf "10.0.0.%d - - [x] \"GET /p/%d HTTP/1.1\" %d %d\n" $((i%250)) $((i%97)) $((200+i%5)) $((i*7%1000)); done > log.txt; n=0; while read -r a b c d e; do n=$((n+1)); done < log.txt; echo $n
#--- while-read-case 35 2000
seq 1 $1 > lines.txt; while read -r l; do case $l in *7*) echo "$l";; esac; done < lines.txt | wc -l
#--- function 35 4000
f() { local a=$1; local b=${2:-x}; return 0; }; for ((i=0;i<$1;i++)); do f $i; done
#--- big-var-func 35 400
big=$(seq 1 $(( $1 * 20 ))); f() { local q=$1; }; for ((i=0;i<$1;i++)); do f $i; done
#--- jq-stream 33 1000
for ((i=0;i<$1;i++)); do echo "{\"a\": $i, \"b\": [1,2,{\"c\": \"x\"}]}"; done > j; jq -r ".a" j | tail -1
#--- jq-array 33 1000
(echo "["; for ((i=0;i<$1;i++)); do echo "{\"a\": $i, \"b\": \"x\"},"; done; echo "{}]") > j; jq -r ".[] | select(.a != null) | .a" j | tail -1; jq -c "group_by(.b) | map(length)" j; jq length < j
#--- jq-call 33 12
for ((i=0;i<$1;i++)); do echo "{\"a\": $i}" | jq -r ".a" >/dev/null; done
#--- jq-args 33 12
for ((i=0;i<$1;i++)); do jq -n --arg x $i "{a: \$x}" > /dev/null; done
#--- heredoc 31 125
for ((i=0;i<$1;i++)); do cat <<EOF2 >/dev/null
a $i
EOF2
done
#--- heredoc-big 31 4000
x=$(seq 1 $1); cat <<EOF2 | wc -l
$x
EOF2
#--- set-e 31 4000
set -euo pipefail; for ((i=0;i<$1;i++)); do true; x=$i; done
#--- string-append 30 2000
s=; for ((i=0;i<$1;i++)); do s+="x$i "; done; echo ${#s}
#--- string-append2 30 2000
s=; for ((i=0;i<$1;i++)); do s="$s x$i"; done; echo ${#s}
#--- grep 27 10000
for ((i=0;i<$1;i++)); do printf "10.0.0.%d - - [x] \"GET /p/%d HTTP/1.1\" %d %d\n" $((i%250)) $((i%97)) $((200+i%5)) $((i*7%1000)); done > log.txt; grep -c 202 log.txt; grep -E "p/(1|2)[0-9] " log.txt | wc -l; grep -o "GET [^ ]*" log.txt | wc -l
#--- grep-F-i 27 10000
for ((i=0;i<$1;i++)); do printf "10.0.0.%d - - [x] \"GET /p/%d HTTP/1.1\" %d %d\n" $((i%250)) $((i%97)) $((200+i%5)) $((i*7%1000)); done > log.txt; grep -i get log.txt | wc -l; grep -v 200 log.txt | wc -l; grep -n "HTTP" log.txt | tail -1
#--- grep-q-loop 27 25
seq 1 $1 > lines.txt; for ((i=0;i<$1;i++)); do grep -q "^$i$" lines.txt; done
#--- date 25 50
for ((i=0;i<$1;i++)); do date +%Y >/dev/null; done
#--- mkdir-rm 25 25
for ((i=0;i<$1;i++)); do mkdir -p d/e$i; echo x > d/e$i/f; rm -r d/e$i; done
#--- arith 20 4000
s=0; for ((i=0;i<$1;i++)); do s=$((s+i*2%7)); ((s>100)) && s=0; done
#--- string-replace 20 2000
s=$(seq 1 $1); s=${s//1/one}; s=${s//$'\n'/ }; echo ${#s}
#--- head-tail 20 10000
seq 1 $1 > lines.txt; head -n 100 lines.txt | tail -n 5; tail -n +50 lines.txt | head -3; tail -5 lines.txt; head -c 100 lines.txt
#--- subshell 20 75
for ((i=0;i<$1;i++)); do (x=$i); done
#--- export-env 20 1000
for ((i=0;i<$1;i++)); do export V=$i; X=$i true; done
#--- sed 16 10000
for ((i=0;i<$1;i++)); do printf "10.0.0.%d - - [x] \"GET /p/%d HTTP/1.1\" %d %d\n" $((i%250)) $((i%97)) $((200+i%5)) $((i*7%1000)); done > log.txt; sed -E "s/GET ([^ ]*)/\1/" log.txt | tail -1; sed -n "10,20p" log.txt | wc -l; sed "s/a/b/g;s/HTTP/http/" log.txt | tail -1; sed "/20[01]/d" log.txt | wc -l
#--- wc 16 10000
seq 1 $1 > lines.txt; wc -l lines.txt; wc -w < lines.txt; wc -c lines.txt; cat lines.txt | wc
#--- mv-cp 15 25
echo x > f; for ((i=0;i<$1;i++)); do cp f g; mv g h; done
#--- glob 15 25
for ((i=0;i<$1;i++)); do : > g$i.txt; done; n=0; for f in *.txt; do n=$((n+1)); done; echo $n
#--- find 15 25
for ((i=0;i<$1;i++)); do mkdir -p t$((i%10)); : > t$((i%10))/g$i.txt; done; find . -name "*.txt" -type f | wc -l
#--- find-exec 15 12
for ((i=0;i<$1;i++)); do : > g$i.txt; done; find . -name "*.txt" -exec basename {} \; | wc -l
#--- ls 15 25
for ((i=0;i<$1;i++)); do : > g$i.txt; done; ls -l | wc -l
#--- tr 14 10000
for ((i=0;i<$1;i++)); do printf "10.0.0.%d - - [x] \"GET /p/%d HTTP/1.1\" %d %d\n" $((i%250)) $((i%97)) $((200+i%5)) $((i*7%1000)); done > log.txt; tr a-z A-Z < log.txt | tail -1; tr -d "0-9" < log.txt | wc -c; tr -s " " < log.txt | wc -l
#--- array-append 12 2000
a=(); for ((i=0;i<$1;i++)); do a+=("x$i"); done; echo ${#a[@]}
#--- array-index 12 2000
for ((i=0;i<$1;i++)); do a[i]=$i; done; s=0; for ((i=0;i<$1;i++)); do s=$((s+${a[i]})); done; echo $s
#--- array-iterate 12 4000
a=($(seq 1 $1)); for x in "${a[@]}"; do :; done; echo "${#a[@]} ${a[-1]}"
#--- array-subst 12 75
a=($(seq 1 $1)); for x in "${a[@]}"; do y=$(echo $x | tr 1 2); done
#--- array-subst2 12 75
a=($(seq 1 $1)); for x in "${a[@]}"; do y=$(false; echo $x); done
#--- array-local 12 600
a=($(seq 1 $1)); f() { local z=1; b=$1; }; for x in "${a[@]}"; do f $x; done
#--- array-subshell 12 75
a=($(seq 1 $1)); for x in "${a[@]}"; do (b=$x; a[0]=1); done
#--- array-prefix-env 12 600
a=($(seq 1 $1)); for x in "${a[@]}"; do V=$x true; done
#--- array-unset 12 1000
a=($(seq 1 $1)); for ((i=0;i<$1;i++)); do unset "a[$i]"; done; echo ${#a[@]}
#--- array-slice-shift 12 1000
a=($(seq 1 $1)); while [ ${#a[@]} -gt $(( $1 - 100 )) ]; do a=("${a[@]:1}"); done; echo ${#a[@]}
#--- read-array 12 1000
for ((i=0;i<$1;i++)); do IFS=, read -ra f <<< "a,b,$i"; done
#--- mktemp 12 25
for ((i=0;i<$1;i++)); do f=$(mktemp); rm $f; done
#--- sort 12 10000
for ((i=0;i<$1;i++)); do printf "10.0.0.%d - - [x] \"GET /p/%d HTTP/1.1\" %d %d\n" $((i%250)) $((i%97)) $((200+i%5)) $((i*7%1000)); done > log.txt; sort log.txt | tail -1; sort -k9 -n log.txt | tail -1; sort -u -r log.txt | wc -l; sort -rn < log.txt | head -1
#--- cut 12 10000
for ((i=0;i<$1;i++)); do printf "10.0.0.%d - - [x] \"GET /p/%d HTTP/1.1\" %d %d\n" $((i%250)) $((i%97)) $((200+i%5)) $((i*7%1000)); done > log.txt; cut -d" " -f1,3 log.txt | tail -1; cut -c1-5 log.txt | tail -1
#--- regex 11 2000
for ((i=0;i<$1;i++)); do if [[ "key$i=value" =~ ^key([0-9]+)=(.*)$ ]]; then x=${BASH_REMATCH[1]}; fi; done
#--- string-substr 10 1000
s=$(seq 1 $1 | tr -d "\n"); n=0; for ((i=0;i<${#s} && i<$1;i++)); do [ "${s:$i:1}" = 1 ] && n=$((n+1)); done; echo $n
#--- printf-v 10 4000
for ((i=0;i<$1;i++)); do printf -v x "%05d" $i; done
#--- source 10 25
echo "v=1; g() { :; }" > s.sh; for ((i=0;i<$1;i++)); do source ./s.sh; done
#--- uniq 10 10000
for ((i=0;i<$1;i++)); do printf "10.0.0.%d - - [x] \"GET /p/%d HTTP/1.1\" %d %d\n" $((i%250)) $((i%97)) $((200+i%5)) $((i*7%1000)); done > log.txt; cut -d" " -f1 log.txt | sort | uniq -c | sort -rn | head -3
#--- seq 10 10000
seq 1 $1 | tail -1
#--- awk 9 10000
for ((i=0;i<$1;i++)); do printf "10.0.0.%d - - [x] \"GET /p/%d HTTP/1.1\" %d %d\n" $((i%250)) $((i%97)) $((200+i%5)) $((i*7%1000)); done > log.txt; awk '{c[$1]++; s+=$NF} END {for (k in c) n++; print n, s}' log.txt; awk -F'"' '{print $2}' log.txt | tail -1; awk 'NR%2 && /p\/1/ {print $1, $NF}' log.txt | wc -l
#--- while-read-here 5 2000
seq 1 $1 > lines.txt; x=$(cat lines.txt); n=0; while read -r l; do n=$((n+1)); done <<< "$x"; echo $n
#--- herestring 5 1000
for ((i=0;i<$1;i++)); do read -r a b <<< "x $i"; done
#--- mapfile 5 4000
seq 1 $1 > lines.txt; mapfile -t a < lines.txt; echo ${#a[@]}
#--- xargs 5 125
seq 1 $1 > lines.txt; xargs -n 1 echo < lines.txt | wc -l; xargs echo < lines.txt | wc -w
#--- base64 5 10000
seq 1 $1 > lines.txt; base64 lines.txt | base64 -d | wc -l; base64 -w0 < lines.txt | wc -c
#--- sha256sum 5 10000
seq 1 $1 > lines.txt; sha256sum lines.txt; md5sum lines.txt
#--- tee 5 10000
seq 1 $1 > lines.txt; cat lines.txt | tee a b | wc -l
#--- trap 5 2000
trap "echo bye" EXIT; for ((i=0;i<$1;i++)); do :; done
#--- eval 5 1000
for ((i=0;i<$1;i++)); do eval "x=$i"; done
#--- sqlite 5 50
sqlite3 t.db "create table t(a int, b text)"; for ((i=0;i<$1;i++)); do echo "insert into t values($i, 'x$i');"; done > q.sql; (echo "begin;"; cat q.sql; echo "commit;") | sqlite3 t.db; sqlite3 t.db "select count(*), sum(a) from t"
#--- tar 4 4000
seq 1 $1 > lines.txt; tar -cf a.tar lines.txt; tar -czf a.tgz lines.txt; tar -tf a.tar; mkdir x; tar -xzf a.tgz -C x; wc -l x/lines.txt
#--- bc 4 12
for ((i=0;i<$1;i++)); do echo "$i * 2" | bc; done
#--- stat-du 4 25
echo x > f; for ((i=0;i<$1;i++)); do stat -c %s f; done >/dev/null; du -s . >/dev/null
#--- while-read-psub 3 2000
seq 1 $1 > lines.txt; n=0; while read -r l; do n=$((n+l)); done < <(cat lines.txt); echo $n
#--- while-read-fd3 3 2000
seq 1 $1 > lines.txt; while read -r -u 3 l; do :; done 3< lines.txt
#--- while-read-exec 3 2000
seq 1 $1 > lines.txt; exec 3< lines.txt; while read -r l <&3; do :; done
#--- paste 3 10000
seq 1 $1 > lines.txt; paste -d, lines.txt lines.txt | tail -1; paste -sd, lines.txt | wc -c
#--- diff 3 2000
seq 1 $1 > lines.txt; sed "s/^5$/x/" lines.txt > l2; diff lines.txt l2; diff -u lines.txt l2 | wc -l
#--- comm 3 4000
seq 1 $1 > lines.txt; sort lines.txt > a; comm -12 a a | wc -l; join a a | wc -l
#--- column 3 2000
for ((i=0;i<$1;i++)); do printf "10.0.0.%d - - [x] \"GET /p/%d HTTP/1.1\" %d %d\n" $((i%250)) $((i%97)) $((200+i%5)) $((i*7%1000)); done > log.txt; column -t log.txt | tail -1
#--- rev-nl-tac 3 4000
seq 1 $1 > lines.txt; rev lines.txt | tail -1; nl lines.txt | tail -1; tac lines.txt | head -1
#--- gzip 3 4000
seq 1 $1 > lines.txt; gzip -k lines.txt; gunzip -c lines.txt.gz | wc -l
#--- xxd-od 3 1000
seq 1 $1 > lines.txt; xxd lines.txt | wc -l; od -c lines.txt | wc -l
#--- background 3 25
for ((i=0;i<$1;i++)); do : & done; wait
#--- getopts 2 1000
f() { local OPTIND o; while getopts "a:b" o; do :; done; }; for ((i=0;i<$1;i++)); do f -a 1 -b; done
#--- read-n1 2 1000
seq 1 $1 > lines.txt; n=0; while IFS= read -r -n1 ch; do n=$((n+1)); [ $n -gt $1 ] && break; done < lines.txt; echo $n
#--- assoc 1 2000
declare -A m; for ((i=0;i<$1;i++)); do m[k$i]=$i; done; s=0; for k in "${!m[@]}"; do s=$((s+m[$k])); done; echo $s
#--- assoc-count 1 2000
declare -A m; for ((i=0;i<$1;i++)); do k=$((i%100)); m[$k]=$(( ${m[$k]:-0} + 1 )); done; echo ${#m[@]}
