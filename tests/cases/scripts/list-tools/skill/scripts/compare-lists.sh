#!/usr/bin/env bash
set -euo pipefail
export LC_ALL=C
a=$1 b=$2

echo "only in $a:"; comm -23 <(sort -u "$a") <(sort -u "$b") | sed 's/^/  /'
echo "only in $b:"; comm -13 <(sort -u "$a") <(sort -u "$b") | sed 's/^/  /'
echo "both:"; comm -12 <(sort -u "$a") <(sort -u "$b") | paste -sd' '
diff <(sort "$a") <(sort "$b") | grep '^[<>]' | tr '<>' '-+' || true

mapfile -t lines < "$a"
echo "${#lines[@]} lines, last '${lines[-1]}', slice ${lines[*]:1:2}"
sorted=($(printf '%s\n' "${lines[@]}" | sort))
echo "${sorted[0]} ${sorted[@]: -1}"
unset 'lines[1]'
echo "${!lines[@]}"
lines+=("neu eins" neu2)
printf '[%s]' "${lines[@]}"; echo
echo "${lines[@]/#/x-}"
echo "${lines[@]%l}" "${lines[0]^}" "${lines[0]^^}" "${lines[0]:1:3}" "${lines[0]/i/I}"

declare -A count
while read -r word; do (( count[$word] = ${count[$word]:-0} + 1 )); done < "$a"
for word in "${!count[@]}"; do echo "${count[$word]} $word"; done | sort -k1,1nr -k2 | head -n 3
[[ -v count[apfel] ]] && echo "apfel ${count[apfel]}"

# Producers that would never end, and what stops them.
set +o pipefail
yes ja | head -n 2
seq 1 1000000 | head -3 | tail -1
(trap '' PIPE; i=0; while ((i++ < 100000)); do echo "$i" 2> /dev/null || break; done) | head -1
set +e; false | true | (exit 3); echo "status ${PIPESTATUS[*]}"; set -e

seq 5 | tac | tr '\n' ' '; echo
printf '%s\n' 1.10 1.9 1.2 v2 | sort -V | paste -sd,
printf '2K\n1M\n100\n' | sort -h | paste -sd,
printf 'b 2\na 10\nc 1\n' | sort -k2 -n | cut -d' ' -f1 | paste -sd,
echo 'one two  three' | tr -s ' ' '\n' | nl -ba -w2 -s': '
fold -w 10 -s <<< "ein langer Satz ueber Tee" ; rev <<< abc; wc -lwc < "$b" | tr -s ' '
printf 'x\ty\nlonger\tz\n' | column -t
printf 'k1 a\nk2 b\n' | join - <(printf 'k1 1\nk3 3\n')
echo {a,b}{1..3} {01..03} {z..w} file.{txt,md}
printf '%s\n' *.txt | xargs -n1 basename | xargs -I{} echo "<{}>"
tee copy.txt < "$b" > /dev/null && cmp "$b" copy.txt && echo identical
printf 'a\0b c\0' | xargs -0 -n 1 printf '(%s)'; echo
split -l 2 "$b" part- && ls part-* && head -n 1 part-ab
expand -t 4 <<< $'a\tb'; od -An -c <<< 'ab' | tr -s ' '; printf 'ü' | wc -c
