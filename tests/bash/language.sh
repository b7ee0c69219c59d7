#--- variables and defaults
a=1; b=; unset c
echo "${a:-x} ${b:-x} ${c:-x} ${b-x} ${c-x} ${a:+y} ${b:+y} ${c+y}."
: "${d:=set}"; echo "$d"
#--- required variable
( : "${missing:?is needed}" ) 2>/dev/null; echo "code $?"
#--- lengths and substrings
s='hello world'; echo "${#s} ${s:0:5} ${s:6} ${s: -5} ${s: -5:3} ${s:2:-3}"
#--- removing patterns
p=/a/b/file.tar.gz; echo "${p##*/} ${p%/*} ${p%.gz} ${p%%.*} ${p#*/} ${p#/}"
#--- replacing
s='one two one'; echo "${s/one/1} ${s//one/1} ${s/#one/X} ${s/%one/Y} ${s// /_}"
#--- case of letters
s='Hello World'; echo "${s^^} ${s,,} ${s^} ${s,} ${s~~}"
#--- indirection and names
name=target; target=hit; echo "${!name}"; v_one=1 v_two=2; echo "${!v_@}"
#--- quoting in transformations
x="it's a \"test\""; echo "${x@Q}"; printf '%q\n' "$x"
#--- arithmetic
echo $(( 7 / 2 )) $(( 7 % 3 )) $(( -7 / 2 )) $(( 2 ** 10 )) $(( 1 << 4 | 3 )) $(( 5 > 3 && 2 < 1 )) $(( 0x1f + 010 )) $(( 2#101 ))
#--- arithmetic assignment
i=5; (( i += 3 )); (( i++ )); echo $i; echo $(( i > 8 ? 100 : 200 )); let 'j = i * 2'; echo $j
#--- arithmetic exit codes
(( 0 )); echo $?; (( 5 )); echo $?
#--- for loops
for x in a "b c" d; do printf '[%s]' "$x"; done; echo
for ((i = 0; i < 3; i++)); do printf '%d ' "$i"; done; echo
#--- while and until
n=3; while [ "$n" -gt 0 ]; do printf '%s ' "$n"; n=$((n - 1)); done; until [ "$n" -ge 2 ]; do n=$((n + 1)); done; echo "$n"
#--- break and continue
for i in 1 2 3 4 5; do [ "$i" = 2 ] && continue; [ "$i" = 4 ] && break; echo "$i"; done
for i in 1 2; do for j in 1 2; do [ "$j" = 2 ] && continue 2; echo "$i$j"; done; done
#--- case
for w in apple.txt banana 7 ''; do case "$w" in *.txt) echo text ;; [0-9]) echo digit ;; b*|c*) echo bc ;; '') echo empty ;; *) echo other ;; esac; done
#--- case falling through
case x in x) echo one ;& y) echo two ;;& x) echo three ;; *) echo no ;; esac
#--- functions and local
f() { local v=inner; echo "$v $1 $#"; v=changed; return 3; }; v=outer; f a b; echo "$? $v"
#--- recursion
fact() { if [ "$1" -le 1 ]; then echo 1; else local r; r=$(fact $(($1 - 1))); echo $(($1 * r)); fi; }; fact 10
#--- deep recursion without subshells
down() { if (( $1 > 0 )); then down $(( $1 - 1 )); else echo bottom; fi; }; down 200
#--- positional parameters
set -- one 'two three' four; echo "$# $1 ${2} ${@:2}"; shift; echo "$*"; for a; do echo "<$a>"; done
#--- at and star
set -- 'a b' c; printf '<%s>' "$@"; printf '<%s>' "$*"; printf '<%s>' $*; echo; IFS=,; echo "$*"
#--- arrays
a=(one two 'three four'); echo "${a[0]} ${a[2]} ${#a[@]} ${#a[2]}"; a+=(five); a[7]=eight; echo "${!a[@]}"; unset 'a[1]'; echo "${a[@]}"
#--- slices of arrays
a=(0 1 2 3 4 5); echo "${a[@]:2:3}" "${a[@]: -2}" "${a[-1]}"
#--- looping over an array
files=("a b.txt" c.txt); for f in "${files[@]}"; do echo "file: $f"; done; echo "${files[@]/%.txt/.md}"
#--- associative arrays
declare -A m=([red]=1 [green]=2); m[blue]=3; for k in $(printf '%s\n' "${!m[@]}" | sort); do echo "$k=${m[$k]}"; done; echo "${#m[@]}"; [[ -v m[red] ]] && echo has; unset 'm[red]'; [[ -v m[red] ]] || echo gone
#--- mapfile
printf 'l1\nl2\nl3\n' > in.txt; mapfile -t lines < in.txt; echo "${#lines[@]} ${lines[1]}"; readarray -t more < <(seq 3); echo "${more[*]}"
#--- read
echo 'a b c d' | { read -r x y rest; echo "$x|$y|$rest"; }; IFS=: read -r u p <<< 'user:pass'; echo "$u $p"
#--- read with a delimiter and count
printf 'ab,cd' | { read -r -d , x; echo "$x"; }; echo hello | { read -r -n 3 y; echo "$y"; }
#--- read into an array
read -r -a parts <<< 'x y z'; echo "${#parts[@]} ${parts[2]}"
#--- reading lines that end without a newline
printf 'one\ntwo' | while IFS= read -r line || [ -n "$line" ]; do echo "[$line]"; done
#--- here documents
name=World
cat <<EOF
Hello $name $((1 + 1)) $(echo sub)
EOF
cat <<'EOF'
Hello $name `x` \n
EOF
cat <<-EOF
	tabs are taken
	EOF
#--- here strings
wc -c <<< 'four'; tr a-z A-Z <<< "$(echo up)"
#--- command substitution
x=$(printf 'a\nb\n\n'); echo "$x|"; echo "`echo old \`echo nested\``"; echo "$(echo "$(echo deep)")"
#--- test operators on strings
[ -z '' ] && echo z; [ -n a ] && echo n; [ a = a ] && echo eq; [ a != b ] && echo ne; [[ abc < abd ]] && echo lt; [ ! -e nope ] && echo not
#--- test operators on numbers
[ 3 -eq 3 ] && [ 3 -ne 4 ] && [ 3 -lt 4 ] && [ 4 -le 4 ] && [ 5 -gt 4 ] && [ 5 -ge 5 ] && echo ok
#--- test operators on files
touch f; mkdir d; echo x > g; [ -f f ] && [ -d d ] && [ -e g ] && [ ! -L f ] && [ ! -s f ] && [ -s g ] && [ -r f ] && [ -w f ] && echo ok
#--- double brackets
x='a b'; [[ $x == a* ]] && echo glob; [[ $x == "a*" ]] || echo literal; [[ -n $x && ! -z $x || 1 == 2 ]] && echo logic; [[ 10 -gt 9 ]] && echo num
#--- regular expressions
if [[ 'v1.23.4-rc' =~ ^v([0-9]+)\.([0-9]+)\.([0-9]+)(-.*)?$ ]]; then echo "${BASH_REMATCH[0]} ${BASH_REMATCH[1]} ${BASH_REMATCH[2]} ${BASH_REMATCH[4]}"; fi; re='^[a-z]+@[a-z]+\.com$'; [[ me@site.com =~ $re ]] && echo mail; [[ nope =~ $re ]] || echo no
#--- brace expansion
echo {a,b,c}{1,2} {1..5} {05..8} {a..e} {1..10..3} pre{x,}post {5..1}
#--- globs
touch a.txt b.txt c.md .hidden; mkdir sub; touch sub/d.txt; echo *.txt; echo [ab]*; echo ?.md; echo */; echo nomatch*; echo .h*
#--- glob options
touch a b; shopt -s nullglob; echo none* end; shopt -u nullglob; shopt -s dotglob; touch .dot; echo *; shopt -s extglob; echo !(a)
#--- globstar
mkdir -p x/y; touch x/1.c x/y/2.c 0.c; shopt -s globstar; echo **/*.c
#--- word splitting
x='a  b   c'; set -- $x; echo $#; IFS=,; y='1,2,,3'; set -- $y; echo "$# $3."; unset IFS
#--- tilde and export
HOME=/h; echo ~ ~/x "~"; export E=1; bash -c 'echo "E=$E"'; F=2 bash -c 'echo "F=$F"'; echo "F=${F:-}"
#--- pipes and their codes
false | true; echo $?; set -o pipefail; false | true; echo $?; true | false | true; echo "${PIPESTATUS[@]}"
#--- lists
true && echo a || echo b; false && echo a || echo b; ! false && echo neg; { echo grp; } ; (echo sub; exit 3); echo $?
#--- subshells keep to themselves
x=1; (x=2; cd /; echo "$x"); echo "$x"; y=$(x=3; echo $x); echo "$x $y"
#--- redirections
echo out > f; echo more >> f; cat < f; echo err >&2 2>/dev/null; { echo o; echo e >&2; } 2>&1 | sort; { echo both; ls nope; } &> all; wc -l < all
#--- redirecting descriptors
exec 3> three; echo to three >&3; exec 3>&-; cat three; exec 4< three; read -r line <&4; exec 4<&-; echo "$line"
#--- swapping outputs
{ echo out; echo err >&2; } 3>&1 1>&2 2>&3 3>&- 2>/dev/null | cat
#--- noclobber and truncation
set -C; echo a > f; (echo b > f) 2>/dev/null || echo kept; echo c >| f; cat f; set +C; : > f; wc -c < f
#--- process substitution
diff <(printf 'a\nb\n') <(printf 'a\nc\n'); echo $?; cat <(echo one) <(echo two); while read -r l; do echo "<$l>"; done < <(seq 2)
#--- writing to a process
seq 3 | tee >(cat > copy) > /dev/null; sleep 0.1; cat copy
#--- errexit
bash -c 'set -e; false; echo never'; echo $?; bash -e -c 'if false; then :; fi; false || true; echo still; false; echo never'; echo $?
#--- errexit in functions and pipes
bash -c 'set -euo pipefail; f() { false; echo in; }; f; echo after'; echo $?; bash -c 'set -eo pipefail; false | true; echo no'; echo $?; bash -c 'set -e; x=$(false); echo no'; echo $?
#--- nounset
bash -c 'set -u; echo "$nope"; echo never' 2>/dev/null || echo stopped; bash -c 'set -u; echo "${nope:-fine}"; set --; echo "$@" $#'
#--- xtrace
bash -x -c 'a=1; echo "$a" two' 2>&1
#--- traps at exit
bash -c 'trap "echo bye" EXIT; echo hi; exit 3'; echo $?; bash -c 'trap "echo cleanup; rm -f t" EXIT; touch t; false'; ls
#--- traps on errors
bash -c 'trap "echo failed at $LINENO" ERR; false; echo on'; bash -c 'set -e; trap "echo code \$?" EXIT; (exit 4)'; echo $?
#--- trap on a signal
bash -c 'trap "echo got; exit 9" TERM; kill -TERM $$; echo no'; echo $?; trap 'echo int' INT; trap -p INT; trap - INT; trap -p INT
#--- getopts
parse() { local OPTIND=1 o; while getopts ':ab:c' o "$@"; do case $o in a) echo a ;; b) echo "b=$OPTARG" ;; c) echo c ;; :) echo "missing $OPTARG" ;; \?) echo "bad $OPTARG" ;; esac; done; shift $((OPTIND - 1)); echo "rest: $*"; }; parse -a -b val -c x y; parse -z; parse -b
#--- long options by hand
parse() { while [[ $# -gt 0 ]]; do case "$1" in --name) name=$2; shift 2 ;; --name=*) name=${1#*=}; shift ;; -v|--verbose) v=1; shift ;; --) shift; break ;; -*) echo "unknown $1"; return 1 ;; *) break ;; esac; done; echo "${name:-} ${v:-0} $*"; }; parse --name x -v rest; parse --name=y -- -z; parse --bad
#--- source
echo 'lib() { echo "lib $1"; }; V=from_lib' > lib.sh; source ./lib.sh; lib x; echo $V; . ./lib.sh; echo 'return 5' > r.sh; . ./r.sh; echo $?
#--- source with arguments
echo 'echo "$# $1"' > s.sh; set -- outer; source ./s.sh in1 in2; echo "$1"
#--- script files
cat > s.sh <<'EOF'
#!/bin/bash
echo "${0##*/} $# $1 $2"
echo "$(basename "${BASH_SOURCE[0]}")"
exit 4
EOF
bash s.sh a 'b c'; echo $?; chmod +x s.sh; ./s.sh x y; echo $?
#--- where a script is
mkdir -p tool; cat > tool/run.sh <<'EOF'
DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
basename "$DIR"; cat "$DIR/data"
EOF
echo data > tool/data; bash tool/run.sh; cd /; cd - > /dev/null; bash ./tool/run.sh
#--- scripts from standard input
echo 'echo "in $1"' | bash -s arg; bash <<< 'echo here; exit 6'; echo $?
#--- dash c with a name
bash -c 'echo "$0 $1 $#"' name one two; sh -c 'echo "$0"' n
#--- eval
cmd='echo "a b"'; eval "$cmd"; eval 'x=5; y=$((x+1))'; echo $y; var=dyn; eval "${var}_x=7"; echo $dyn_x
#--- declare and typeset
declare -i n=5; n=n+2; echo $n; declare -r ro=1; (ro=2) 2>/dev/null || echo readonly; declare -l low=ABC; declare -u up=abc; echo "$low $up"; declare -p n
#--- namerefs
f() { local -n ref=$1; ref=changed; }; v=orig; f v; echo $v; arr=(1 2); g() { local -n a=$1; a+=(3); }; g arr; echo "${arr[@]}"
#--- printf
printf '%s|%5s|%-5s|%05d|%x|%o|%.2f|%c|%%\n' s r l 42 255 8 3.14159 char; printf '%s\n' a b c; printf '%b' 'x\ty\n'; printf -v out '%03d' 7; echo $out
#--- printf reuses its format
printf '%s=%d\n' a 1 b 2; printf '%d %s\n' 3; printf '\x41\101\u00e9\n'
#--- echo
echo -n no newline; echo; echo -e 'a\tb\\n\x41'; echo -E 'a\tb'; echo "$(echo -e 'x\cy')"; echo -- -n
#--- special characters in strings
echo $'tab\there\nline\x21'; echo "dollar \$ back \\ quote \" tick \`"; echo 'single '"'"' quote'
#--- unicode
s='héllo wörld ✓'; echo "${#s} ${s:1:1} ${s^^}"; echo "$s" | wc -m
#--- cut counts bytes
echo 'héllo' | cut -c1-3
#--- commands that are not there
nosuchcommand_xyz; echo $?; bash -c 'nosuchcommand_xyz' 2>&1; ./nofile 2>/dev/null; echo $?
#--- files that are not there
cat nofile; echo $?; cat < nofile; echo $?; bash nofile.sh 2>/dev/null; echo $?; cd nodir 2>/dev/null || echo no cd
#--- syntax errors
bash -c 'if true; then' 2>/dev/null; echo $?; bash -c 'echo a; echo )' 2>/dev/null; echo $?
#--- command and type
command -v cd; type -t cd; type -t if; f() { :; }; type -t f; command -v nosuch_x || echo none; command echo direct; alias ll='ls -l'; type -t nosuch_y || echo nothing
#--- exec
bash -c 'exec echo replaced; echo never'; (exec > log; echo to log); cat log
#--- background and wait
(sleep 0.05; echo late) & p=$!; echo first; wait $p; echo "code $?"; (exit 3) & wait $!; echo $?
#--- several jobs
for i in 1 2 3; do (echo "job $i" > "out$i") & done; wait; cat out1 out2 out3
#--- dollar variables
true; echo $?; echo $#; [ $$ -gt 0 ] && echo pid; echo "${FUNCNAME[0]:-main}"; f() { echo "$FUNCNAME"; }; f; echo $LINENO
#--- ifs and joining
join() { local IFS="$1"; shift; echo "$*"; }; join , a b c; join / x y
#--- nested functions and returns
outer() { inner() { return 7; }; inner; echo $?; return 0; }; outer && echo ok; unset -f inner; type -t inner || echo unset
#--- conditional one liners
[[ -f nofile ]] && x=1 || x=2; echo $x; ((x == 2)) && echo two; test "$x" -eq 2 && echo test
#--- select-free menus with case and read
printf '2\n' | { read -r c; case $c in 1) echo first ;; 2) echo second ;; esac; }
#--- comments and line continuation
echo a \
  b # comment
# whole line
echo 'a # not'
#--- numeric formats
printf '%d\n' 0x10 010 "'A"; echo $((10#08 + 1)); printf '%e\n' 12345.678; printf '%g\n' 0.0001
#--- string comparison loop
max=''; for w in pear apple zebra mango; do [[ -z $max || $w > $max ]] && max=$w; done; echo $max
#--- sum of a column
printf '1\n2\n3\n' | { s=0; while read -r n; do s=$((s + n)); done; echo $s; }
#--- variables of a loop behind a pipe are lost
n=0; printf 'a\nb\n' | while read -r _; do n=$((n + 1)); done; echo $n; while read -r _; do n=$((n + 1)); done < <(printf 'a\nb\n'); echo $n
#--- crlf in data
printf 'a\r\nb\r\n' > crlf; tr -d '\r' < crlf; while IFS=$'\r\n' read -r l; do echo "[$l]"; done < crlf
#--- shift by more than there is
set -- a; shift 2; echo "$? $#"; shift; echo "$? $#"
#--- umask, times of nothing
umask; ulimit -n > /dev/null && echo ok; hash -r; echo $?
#--- set options shown
set -o | grep -E '^(errexit|nounset|pipefail)' ; set -e; [[ $- == *e* ]] && echo e
#--- timeouts
timeout 5 echo quick; timeout 0.1 sleep 5; echo $?
#--- timeout by a signal of choice
timeout -s KILL 0.1 sleep 5; echo $?
#--- env
env -i A=1 bash -c 'echo "$A ${HOME:-none}"'; A=2 env | grep '^A='; env B=3 bash -c 'echo $B'
#--- xargs of functions
export -f join 2>/dev/null; greet() { echo "hi $1"; }; export -f greet; printf 'a\nb\n' | xargs -I{} bash -c 'greet {}'
#--- time keyword and bang
! true; echo $?; { time true; } 2> t; grep -c real t; rm t
#--- assignment forms
a=1 b=2; a+=3; echo $a $b; arr=(); arr+=(x); echo ${#arr[@]}; x=$((1)) y="$(echo 2)"; echo $x$y
#--- early readers end producers
yes | head -n 2; seq 1 1000000 | head -n 1; while :; do echo loop; done | head -n 1
#--- variables that are always set
set -u; printf '%q\n' "$IFS"; [[ -n $BASH ]] && echo set; a=(1 2); echo $a
#--- quoted operands are no patterns
shopt -s nullglob; a=("*.log" "x y"); for g in ${a[@]+"${a[@]}"}; do echo "[$g]"; done; b=(${a[@]+"${a[@]}"}); echo ${#b[@]} "${b[@]}"; x=1; printf '<%s>' ${x:+"*"} ${x+"$a"} ${no-"?"}; echo; e=(); for g in ${e[@]+"${e[@]}"}; do echo no; done
#--- unquoted operands are
touch f.log g.log; x=1; echo ${x:+*.log}; p='*.log'; echo ${p+$p} ${no:-*.log}; a=(${p+$p}); echo ${#a[@]}
#--- a pipeline in a loop that reads a pipe
f() { printf 'a\nb\nc\n'; }; f | while read -r m; do echo "$m" | tr a-c x-z; done; f | while read -r m; do printf '%s %s|' "$m" "$(printf '%*s' 3 '' | tr ' ' '#')" | sed 's/|$/!/'; echo; done; f | while read -r m; do echo "$m" | cat; done | grep -n .
#--- time
time true 2> /dev/null; { time sleep 0.01; } 2> t; sed 's/[0-9.]\{1,\}/N/g' t; rm t; { time -p true; } 2>&1 | cut -d ' ' -f 1; TIMEFORMAT='%R %U'; { time true; } 2>&1 | grep -cE '^0\.[0-9]{3} 0\.[0-9]{3}$'
#--- exec for the rest of a line
exec 2>&1; echo out; echo err >&2; exec > log; echo in log; exec >&2; cat log
#--- the end of a redirected file is the end of the loop's input
printf 'a\nb\n' > f
printf 'own\nrest\n' | {
  while read -r line; do echo "got $line"; done < f
  read -r line; echo "then $line"
  f() { while read -r line; do echo "f $line"; done; }
  f < f
  read -r line; echo "then $line"
}
#--- read takes what is left in pieces
printf 'one two\nthr\\\nee\n\xc3\xa9\xc3\xa9\nlast' | {
  read -r -n 3 a; read -r b; read c; read -r -n 1 d; read -r e; read -r f
  echo "[$a][$b][$c][$d][$e][$f]"
}
#--- appending to arrays
a=(1 2); a+=(3 "4 5" {6,7}); a+=("${a[@]}"); echo "${#a[@]} ${a[*]}"
b=x; b+=(y); echo "${b[@]}"
c[5]=five; c+=(six); echo "${!c[@]} ${c[@]}"
declare -i n=(1 2); n+=(1+2); echo "${n[@]}"
(a+=(sub); a[0]=changed; echo "${#a[@]} ${a[0]}"); echo "${#a[@]} ${a[0]} ${a[-1]}"
x=$(a+=(sub); false | true; echo "${#a[@]} ${PIPESTATUS[@]}"); echo "$x ${#a[@]}"
unset 'a[0]' 'a[-1]'; echo "${!a[@]}"
declare -A m=([k]=1); m+=([l]=2 [k]+=3); for k in k l; do echo "$k ${m[$k]}"; done
f() { local a=(l); a+=(m); echo "${a[@]}"; }; f; echo "${#a[@]}"
#--- unfinished compound commands
for text in 'case a in a) echo ) ;; esac' '{ echo a; ) }' '(echo a; } )' 'case a in a) echo a; } ;; esac' 'case a in a) ;; esac; echo fine'; do bash -c "$text" 2>/dev/null; echo $?; done
#--- named time zones
TZ=Europe/Berlin date -d @1700000000 '+%F %T %Z %z'; TZ=Europe/Berlin date -d @1720000000 '+%H %Z'; TZ=America/New_York date -d '2024-07-01 12:00 UTC' '+%H:%M %Z'; TZ=Asia/Kolkata date -d '2024-01-01 00:00' +%s; export TZ=Australia/Sydney; printf '%(%F %H:%M %Z)T\n' 1700000000; date -u -d @0 +%T
#--- redirections of compound commands
cd "$(mktemp -d)"; for f in *; do echo "$f"; done > out; cat out; { ls; } > out2; cat out2; for i in $(echo side > side); do :; done > /none/x; echo $?; ls; case x in *) echo body;; esac > /none/y 2>/dev/null; echo $?; echo old > log; { cat log; echo new; } > log; cat log; { echo more; } >> log; cat log; for i in $(cat); do echo got $i; done < log; (echo sub) > sub; cat sub; { echo both; echo err >&2; } &> both; cat both; set -C; { echo kept; } > fresh; cat fresh; { echo no; } > fresh; echo $?; cat fresh
#--- a syntax error in a conditional
printf '(exit 7)\n[[ a b ]]\necho x\n' > s.sh; bash s.sh 2> /dev/null; echo $?; bash -c '[[ ]]' 2> /dev/null; echo $?; eval '[[ a b ]]' 2> /dev/null; echo $?
#--- an unset variable in the text of -c
bash -c 'set -u; echo $x; echo no' 2> /dev/null; echo $?; bash -c '(echo ${x?no}); echo $?' 2> /dev/null; echo 'set -u; echo $x' > u.sh; bash u.sh 2> /dev/null; echo $?
#--- escaped characters in names and values
mkdir bin; printf '#!/bin/sh\necho "ran $1"\n' > 'bin/a=b'; chmod +x 'bin/a=b'; PATH=$PWD/bin:$PATH; a\=b 1
declare -A m; m[k]=\'\'; m[l]=\"x\"; echo "${m[k]} ${m[l]}"; v=\'y\'; echo "$v"
#--- patterns and braces as commands
printf '#!/bin/sh\necho "shown $*"\n' > show.sh; chmod +x show.sh; ./sh*.sh a; ./sh?w.sh; {echo,b,c} d
#--- indirection with operators
x=xx; xx=aaabcc; echo "${!x%%c*} ${!x%c*} ${!x##*a}"; (eval 'echo ${!!x*}') 2> /dev/null; echo $?; (eval 'echo ${!#x}') 2> /dev/null; echo $?
#--- an array as a key
l=(1 2 3); declare -A m; m["${l[@]}"]=x; echo "${m["${l[@]}"]}"; echo "${!m[@]}"
#--- arithmetic that calls itself
loop='i<=100&&(s+=i,i++,loop)' s=0 i=0; echo $((a=loop,s)); for ((i = "3"; i < "5"; i++)); do echo $i; done
#--- the state of child shells
IFS=,; export IFS; bash -c 'a=1,2; printf "<%s>" $a; echo'; bash -c 'echo ${#BASH_VERSINFO[@]}'; echo 'echo ${#BASH_VERSINFO[@]}; echo $-' > v.sh; bash v.sh; bash -c 'echo $-'
#--- a file as a process substitution
echo A > f; tr A-Z a-z < <(< f); cat < <(< f; echo hi)
#--- signals to other shells of the program
trap 'echo got' USR1; (kill -USR1 $$; echo inner); echo after; sh -c "kill -USR1 $$"; echo end; trap 'echo urgent' URG; kill -URG $$
bash -c 'trap "echo ended; exit 3" TERM; x=$(kill -TERM $$; echo inner); echo not'; echo $?
bash -c '(kill -TERM $$); sleep 1; echo not'; echo $?
#--- traps of loops and jobs
trap 'echo debug' DEBUG; for ((i = 0; i < 2; i++)); do echo $i; done; trap - DEBUG
set -E; trap 'echo error' ERR; false & wait; { false; echo more; } & wait
#--- jobs write in the order in which they end
for i in 9 5 1; do { sleep 0.$i; echo $i; } & pids="$pids $!"; done; for p in $pids; do wait $p; echo waited; done
#--- a job that a signal ends
sleep 5 & kill -HUP $!; wait $! 2> err; echo $?; grep -o Hangup err; sleep 5 & kill $!; wait $! 2> err; echo $?; cat err
#--- the time zone of printf
TZ=Asia/Tokyo; printf '%(%H)T\n' 0
#--- handlers that other handlers interrupt
trap 'false; echo "$LINENO err"' ERR; trap 'false; echo "$LINENO debug"' DEBUG
false
echo "after $?"
#--- handlers of signals have their own lines
trap 'false; echo "$LINENO usr1"' USR1
trap 'false; echo "$LINENO err"' ERR

sh -c "kill -USR1 $$"
echo "after $?"
#--- err of redirections and subshells
trap 'echo "err $LINENO"' ERR
false
{ true; } > /nowhere/x
for i in 1; do :; done < /nowhere/x
true | (false)
true | { (exit 3); }
if true | (false); then :; fi
echo end
#--- arrays that the shell has
declare -a | grep -vE 'SOURCE|LINENO'; (BASH_VERSINFO=1) 2> /dev/null; echo "$?"; readonly -p | grep -c VERSINFO
#--- a child without PWD
cd "$(mktemp -d)"; mkdir t; ln -s t l; cd l; bash -c 'basename "$(pwd)"'; unset PWD; bash -c 'basename "$(pwd)"'
#--- locale strings in arithmetic
for ((i = $"3"; i < $"5"; ++i)); do echo $i; done; echo $(( $"4" + 1 )); (( x = $"2" )); echo $x
#--- letters between cases
echo -{Y..a}- 2> /dev/null; echo $?
echo {a..c} {X..Z} '`'{a,b} \`{a,b}
#--- commands in the words of expansions
echo "${A:-${B:-$(echo x)}}" ${A:-${B:-$(echo x y)}} "${A:-$(echo "a  b")/$(echo "c  d")}" "${A:-"$(echo "a  b")"}" "${A:-`echo "a  b"`}"
: "${A1:=$(printf '%s' "p  q")}"; echo "$A1"; x=abc; echo "${x/b/$(echo "1  2")}" "${x#$(echo "a")}" "${x%"$(echo "c")"}" "${x:+$(printf '<%s>' "$x  $x")}"
D="${D:-$(cd "$(dirname "$0")/.." > /dev/null && echo "in  it")}"; echo "$D"; echo "${A:-$(case x in x) echo "in  case";; esac)}" "${A:-$(echo ")" "'" '"')}"
echo "${A:-$((1+2))}" "${A:-$(( $(echo "4") + 1 ))}"; a=(1x 2x); echo "${a[@]:-$(echo "n  o")}" "${b[@]:-$(echo "y  e")}"
y="${A:-${B:-${C:-$(echo "deep  er")}}}"; echo "$y"; set -- "${A:-"$(echo "one  word")"}" ${A:-$(echo "two words")} ${A:-"$(echo "one  word")"}; echo $#
cat <<X
${A:-$(echo "here  doc")} ${A:-${B:-$(echo "z  z")}}
X
n() { echo called >&2; echo n; }; v=set; echo "${v:-$(n)}" "${v+$(echo "y")}" "${w+$(n)}" 2>&1
#--- the level of a shell is exported
export -p | grep SHLVL= | tr -d 0-9; env | grep -c SHLVL=
