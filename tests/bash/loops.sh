#--- nounset var
( set -u; echo "$nope"; echo after ); echo end
#--- nounset test
( set -u; [ -z "$nope" ]; echo after ); echo end
#--- nounset assign
( set -u; x=$nope; echo after ); echo end
#--- nounset default
set -u; x=${nope:-d}; echo $x; [ -n "${nope:-}" ] || echo empty
#--- nounset dbracket
( set -u; [[ -z ${nope:-} ]] && echo ok; [[ -z $nope ]]; echo after ); echo end
#--- nounset arith
( set -u; x=$((nope+1)); echo after ); echo end
#--- readonly
readonly r=1; r=2; echo "after $?"
#--- readonly errexit
set -e; readonly r=1; r=2; echo after
#--- integer
declare -i n; n=1+2; echo $n; n+=4; echo $n
#--- lower
declare -l n; n=ABC; echo $n; n+=DEF; echo $n
#--- nameref
a=1; declare -n r=a; r=5; echo $a; r+=6; echo $a
#--- append array
a=(1 2); a+=x; echo "${a[@]}"; a=y; echo "${a[@]}"
#--- append export
export E=1; E+=2; env | grep '^E='
#--- allexport
set -a; v=1; v+=2; env | grep '^v='
#--- test errors
[ 1 -eq a ]; echo $?; [ a b ]; echo $?; [ 1 -eq ]; echo $?; [ ; echo $?; [ -z ]; echo $?; test; echo $?
#--- test missing bracket
[ 1 -eq 1; echo $?
#--- test empty unquoted
x=; [ $x = y ]; echo $?; [ $x ]; echo $?; [ -n $x ]; echo $?; [ ! $x ]; echo $?
#--- test spaces unquoted
x="a = a"; [ $x ]; echo $?; x="1 2"; [ $x -eq 1 ]; echo $?
#--- test glob
touch gg1; x='gg*'; [ $x = gg1 ]; echo $?; echo $x; rm gg1
#--- test file dynamic
op=-d; [ $op /tmp ]; echo $?; [ $op /nope ]; echo $?
#--- test file shift
x=; [ -d = $x ]; echo $?; [ $x -d /tmp ]; echo $?
#--- test not
[ ! -z "a" ]; echo $?; [ ! -n "a" ]; echo $?; [ ! a = b ]; echo $?; [ ! -d /tmp ]; echo $?
#--- test bang operand
[ "!" = "!" ]; echo $?; [ "(" = "(" ]; echo $?; [ -n = -n ]; echo $?; [ -z = ]; echo $?
#--- function shadows
echo() { builtin echo "mine: $*"; }; echo hi; true() { return 3; }; true; builtin echo $?
#--- alias
shopt -s expand_aliases
alias echo='printf "%s\n"'
echo a b
#--- underscore
echo a b; printf '%s\n' "$_"; : x y; echo "$_"; v=1; echo "[$_]"; true; echo "$_"
#--- pipestatus
false; echo "${PIPESTATUS[@]}"; [ a = b ]; echo "${PIPESTATUS[@]}"; [[ a == b ]]; echo "${PIPESTATUS[@]}"; ((0)); echo "${PIPESTATUS[@]}"; true | false; x=1; echo "${PIPESTATUS[@]}"
#--- err trap
trap 'echo ERR $LINENO $?' ERR; false; [ a = b ]; [[ a == b ]]; ((0)); x=1; true
#--- xtrace
set -x; x=1; [ $x = 1 ]; [[ $x == 1 ]]; ((x++)); echo $x; f() { local a=$1; return 2; }; f q
#--- noexec
set -n; echo hi
#--- errexit test
set -e; [ a = a ]; echo one; [ a = b ] || echo two; if [ a = b ]; then :; fi; [ a = b ]; echo no
#--- errexit dbracket
set -e; [[ a == a ]]; [[ a == b ]]; echo no
#--- errexit arith
set -e; ((1)); ((0)); echo no
#--- errexit func
set -e; f() { [ a = b ]; echo in; }; if f; then echo yes; fi; f; echo no
#--- errexit group
set -e; { false; echo a; } || echo b; ! true; echo c; false; echo no
#--- lineno
echo $LINENO
x=$LINENO; echo $x
[ $LINENO -eq 3 ] && echo three
#--- ifs
IFS=,; x=a,b; echo $x; set -- $x; echo $#; y=$((1+1)); echo $y; IFS=2; echo $((121))
#--- tilde
HOME=/h; x=~; echo $x; y=~/a:~/b; echo $y; [[ ~ == /h ]] && echo y; echo ~ "~" a=~; export z=~/q; echo $z; local_() { local w=~/r; echo $w; }; local_
#--- brace
x={a,b}; echo $x; echo {a,b}; echo x{1..3}; export q={a,b}; echo $q; f() { local l={a,b}; echo $l; }; f
#--- glob literal
rm -rf gl; mkdir gl; cd gl; touch a.txt b.txt; echo *.txt; echo "*.txt"; x=*.txt; echo "$x" $x; [ *.txt = a.txt ]; echo $?; [[ *.txt == *.txt ]]; echo $?; export q=*.txt; echo "$q"
#--- nullglob
shopt -s nullglob; echo zz*; x='zz*'; echo $x end
#--- extglob
shopt -s extglob
x='+(a)'; [[ aaa == $x ]] && echo m; echo +(q)
#--- dbracket patterns
x=abc; [[ $x == a* ]] && echo 1; [[ $x == "a*" ]] || echo 2; p='a*'; [[ $x == $p ]] && echo 3; [[ $x == "$p" ]] || echo 4; [[ $x == a"b"* ]] && echo 5; [[ "a*" == "a*" ]] && echo 6; [[ $x == "a"* ]] && echo 7
#--- dbracket logic
[[ -z "" && ( a == b || c == c ) ]]; echo $?; [[ ! a == b && -n x ]]; echo $?; [[ ! -z x || y ]]; echo $?; [[ a ]]; echo $?; [[ "" ]]; echo $?; [[ ! a ]]; echo $?
#--- dbracket file
[[ -d /tmp ]]; echo $?; [[ -f /tmp || -d /tmp ]]; echo $?; op=-d; [[ $op == -d ]]; echo $?; [[ -v op ]]; echo $?; [[ -v nope ]]; echo $?
#--- dbracket bang operand
[[ '!' == ! ]]; echo $?; [[ "(" == "(" ]]; echo $?; x='&&'; [[ $x == '&&' ]]; echo $?; x='-f'; [[ $x ]]; echo $?; [[ -n $x ]]; echo $?
#--- dbracket nocase
shopt -s nocasematch; [[ ABC == abc ]]; echo $?; case ABC in abc) echo c;; esac
#--- arith command
((x=5)); echo $x; ((x+=2, y=x*2)); echo $x $y; ((1/0)); echo $?; (( )); echo $?; ((x<3)) || echo no; ((a[2]=7)); echo "${a[2]}"; ((i++ + ++i)); echo $i; (( x = y = 3 )); echo $x$y; ((x==3?1:0)); echo $?
#--- arith ops
echo $((2**10)) $((7%3)) $((1<<4)) $((255>>2)) $((5&3)) $((5|3)) $((5^3)) $((!0)) $((~0)) $((-3)) $((+3)) $((3>2)) $((3>=3)) $((3!=2)) $((1&&0)) $((1||0)) $((10/3)) $((x=3,x*2)) $((08)) ; echo next
#--- arith ops2
x=5; echo $((x++)) $((x--)) $((++x)) $((--x)) $x; x=2; echo $((x<<=2)) $((x>>=1)) $((x&=6)) $((x|=1)) $((x^=3)) $((x%=4)) $((x/=1)) $((x-=1)) $((x*=5)); echo $x; echo $((16#ff)) $((0x1F)) $((010)) $((2#101))
#--- arith error
x=$((1/0)); echo "after $?"
echo next; y=$((1+)); echo "after"
echo more; echo $((1 1))
echo end
#--- assign undo
x=1; x=2 y=$((1/0)); echo $x
echo $x
#--- assign order
a=1 b=$a c=$b; echo $a $b $c; x=$y y=2; echo "[$x]$y"
#--- assign status
false; x=1; echo $?; x=$(false); echo $?; x=$(false) y=1; echo $?
#--- special assigns
SECONDS=5; [ $SECONDS -ge 5 ] && echo s; OPTIND=3; echo $OPTIND; PATH=/x; echo $PATH; PWD=/q; echo $PWD; UID=3; echo "u $?"
#--- local
f() { local a=$1 b="$2 x" c=${3:-d e}; local d; d=1; echo "$a|$b|$c|$d"; a=9; }; a=out; f 1 2; echo $a; f '*' "p q" "r s"; local x=1; echo $?
#--- local opts
f() { local -i n=2+3; echo $n; local -a arr=(1 2); echo ${arr[1]}; local -r q=1; q=2; echo no; }; f; echo out
#--- local quotes
f() { local a="$1"b c=x"$1"; echo "$a $c"; local v=$1; echo "$v"; local w=a$1; echo "$w"; }; f "p q"
#--- local unset status
f() { local x=$(false); echo $?; local y; echo "${y-unset}"; local z=; echo "[${z-unset}]"; }; f
#--- return
f() { return 5; }; f; echo $?; g() { return; }; false; g; echo $?; h() { for i in 1 2; do return $i; done; }; h; echo $?; k() { return abc; }; k; echo $?; l() { return 300; }; l; echo $?; return 3; echo "top $?"
#--- return source
echo 'echo in; return 4; echo no' > rs.sh; . ./rs.sh; echo $?; rm rs.sh
#--- return subshell
f() { (return 3); echo $?; x=$(return 4); echo $?; }; f
#--- return trap
f() { trap 'echo bye' RETURN; return 2; }; f; echo $?
#--- shift
set -- a b c d; shift; echo $@; shift 2; echo $@; shift 5; echo "$? $@"; shift x; echo $?; shift -1; echo $?; shift; echo $#
#--- shift func
f() { shift; echo "$1 $#"; while [ $# -gt 0 ]; do echo $1; shift; done; }; f a b c
#--- printf
printf '%s-%d\n' a 3 b 4; printf -v v '%03d' 7; echo $v; printf '%d\n' abc; echo $?; printf; echo $?; printf -v a[2] x; echo ${a[2]}; printf '%s' "-n"; printf -- '-%s\n' q; printf '%(%Y)T\n' 0; x=-v; printf $x w hey; echo $w; printf '\x41\101\n'
#--- printf readonly
readonly ro=1; printf -v ro x; echo $?
#--- params
set -- one two; x=1; echo "${1}${2}$#$?$$" "${!x}" "$0" | tr -d '0-9' ; y=${1:-z}; echo $y ${3:-z} ${3-q} ${1:+w} ${#1} ${#x} ${1#o} ${1%e} ${1/n/N} ${1^} ${1^^} "${1:1:2}"
#--- param assign
( x=${n:=5}; echo $n $x; : ${m:=6}; echo $m; : "${p:=a b}"; echo "$p"; x=${q?msg}; echo no ); echo end
#--- param error colon
( x=${q:?bad thing}; echo no ); echo end
#--- array access
a=(x y z); i=1; v=${a[i]}; w="${a[$i]}"; u=${a[-1]}; echo $v $w $u ${a[0]} "${a[5]}" ${#a[@]} ${#a[1]}; a[1]=q; echo "${a[@]}"; declare -A m=([k]=v); k=k; t=${m[$k]}; r=${m[k]}; echo $t $r ${m[no]}; s=5; echo ${s[0]} "[${s[1]}]"; z=${a[i=2]}; echo $z $i
#--- array star
set -- a b; x=$*; y="$*"; z=$@; echo "$x $y $z"; a=(1 2); b=${a[*]}; c="${a[@]}"; echo $b $c
#--- quotes mixed
x="a b"; y=q"$x"r; echo $y; echo q"$x"r 'lit '"$x"; z='$x'"$x"; echo "$z"; echo "$x"$x; [ "$x" = a\ b ]; echo $?; v=a\*b; echo "$v"; w="a\$b\"c"; echo "$w"
#--- escapes
echo a\ b \* \$x "\\" \~ \{a,b\}; x=\~; echo $x; [[ a\*b == a\*b ]]; echo $?; [[ axb == a\*b ]]; echo $?
#--- subshell state
x=1; (x=2; [ $x = 2 ] && echo in); echo $x; y=$(x=3; echo $x); echo $y $x; (shift 0; set -- a b; shift; echo $1); f() { (return 3); }; f; echo $?
#--- pipe loop
printf '%s\n' 1 2 3 | while read -r l; do [ $l -gt 1 ] && echo $l; x=$l; done; echo "[$x]"
#--- group redirect
{ echo a; [ a = b ]; echo err >&2; } > ./gr 2>&1; cat ./gr; rm ./gr; if [ a = a ]; then echo x; fi > ./gr; cat ./gr; rm ./gr; for i in 1 2; do echo $i; done | cat; { echo o; echo e >&2; } 2>/dev/null
#--- exec redirect
exec 3>&1 >./er; echo file; [ a = a ] && echo two; exec >&3; cat ./er; rm ./er; echo back
#--- stderr of subst
x=$(echo e >&2; echo o); echo $x; [ "$(echo q >&2; echo a)" = a ]; y=1$(echo z >&2)
#--- case
for w in a1 '*' 'a b' ''; do case $w in a*) echo A;; '*') echo star;; "") echo empty;; *) echo other;; esac; done; p='a*'; case abc in $p) echo p;; esac; case abc in "$p") echo q;; *) echo n;; esac; case x in [a-z]) echo r;; esac; case ab in a|ab) echo alt;;& a?) echo two;; esac; case "$nope" in '') echo e;; esac
#--- let and post
let x=1+2; echo $x; for ((i=0;i<3;i++)); do echo $i; done; for ((;;)); do break; done; i=0; while ((i<2)); do ((i++)); done; echo $i; until [ $i -eq 0 ]; do i=$((i-1)); done; echo $i
#--- break continue
for i in 1 2 3; do [ $i = 2 ] && continue; echo $i; done; for i in 1 2; do for j in 1 2; do [ $j = 2 ] && continue 2; [ $i = 2 ] && break 2; echo $i$j; done; done
#--- select keyword
set -k; echo a=1 b; set +k
#--- posix
set -o posix; export x=1; echo $x; f() { local y=2; echo $y; }; f
#--- exit trap
trap 'echo bye $?' EXIT; x=1; [ a = a ]; exit 3
#--- err set -E
set -E; trap 'echo E' ERR; f() { false; true; }; f; x=$(false; true)
#--- declare -p
x=1; x+=2; declare -p x; f() { local q=3; declare -p q; }; f; export z=1; declare -p z; declare -i n=3; n+=1; declare -p n
#--- declared empty
declare v; v+=x; echo $v; [ -v v ]; echo $?; unset v; [ -v v ]; echo $?; v+=y; echo $v
#--- status var
f() { return 7; }; f; echo $?; [ $? = 0 ]; echo $?; false; x=$?; echo $x; true; y="$?"; echo $y
#--- unbound in loop
( set -u; for i in 1; do [ "$i" = "$zz" ]; done; echo after ); echo end
#--- compound function body redirect
f() { echo out; echo err >&2; } 2>/dev/null; f; g() if [ $1 = a ]; then echo yes; else echo no; fi; g a; g b
#--- merged stderr
{ [ 1 -eq x ]; echo a; } 2>&1; { x=$((1/0)); } 2>&1; echo b
#--- redirected builtins
rm -f rb; echo a > rb; echo b >> rb; printf '%s\n' c >> rb; : >> rb; cat rb; : > rb; cat rb; [ 1 -eq x ] 2> rb; echo $?; cat rb; [ 1 -eq x ] 2>/dev/null; echo $?; echo q > /dev/null; echo r >/dev/stderr; true > rb2; ls rb2; rm rb rb2
#--- redirected nounset
( rm -f rn; set -u; echo $nope 2> rn; echo after ); echo end
#--- redirected nounset exists
rm -f rn; (set -u; echo $nope > rn); ls rn; echo $((1/0)) 2> rn; ls rn
#--- redirected errors
echo a > /nodir/x; echo $?; echo b > /tmp; echo $?; set -C; echo a > nc; echo b > nc; echo $?; cat nc; rm nc
#--- redirected variable targets
f=rv; echo a > $f; echo b >> "$f"; cat rv; n="a b"; echo q > $n; echo $?; rm rv; for i in 1 2; do echo $i >> l.txt; done; cat l.txt; rm l.txt; echo x >"$nope"; echo $?
#--- redirected both
echo a >o1 2>o2; cat o1 o2
#--- redirected status
false > fs; echo $? "${PIPESTATUS[@]}"; trap 'echo E' ERR; false > fs; [ a = b ] > fs; rm fs
#--- redirected errexit
set -e; false > fs || echo ok; if [ a = b ] 2>/dev/null; then :; fi; false > fs; echo no
#--- awk expressions
printf '3 abc 1e2\n10 xbz 0x1\n\n' | awk '{ n = $1 + 1; s = s $2 "-"; m[$2]++; m[NR, 1] = n; $3 = toupper($2); x = ($1 < 5) ? "lt" : "ge"; print n, x, $0, NF, ($2 in m), ((NR, 1) in m), !n, -n, +$2, n % 4, n ^ 2, n / 4; n += 2; n -= 1; n *= 3; print n++ + ++n, n--, length($2), length() } END { print s, length(m), m["zz"] == 0, "a" < "b", 10 < 9, "10" < "9", 1 == 1.0, "x" ~ /x/, "x" !~ "y" }'
#--- awk functions of text
printf 'foo=1;bar=22\n' | awk '{ gsub(/[0-9]+/, "<&>"); print; k = sub(/foo/, "f\\&o", $0); print k, $0; n = split($0, p, /[;=]/); print n, p[1], p[n]; print substr($0, 3, 4), index($0, "bar"), match($0, /b.r/), RSTART, RLENGTH; $2 = "new"; print $0; print sprintf("%05.1f|%-4s|%c|%d", 3.14159, "ab", 65, "12x"), int(-3.7), tolower("AbC") }'
#--- awk errors
awk 'BEGIN { a[1] = 1; x = a + 1 }' 2>/dev/null; [ $? -ne 0 ] && echo failed; awk 'BEGIN { $(-1) = 2 }' 2>/dev/null; [ $? -ne 0 ] && echo failed
#--- awk mixed with commands
printf 'a 1\nb 2\n' | awk '{ if (((("echo " $1) | getline line)) > 0) n += length(line) + $2; close("echo " $1); if ($2 > 1 && n) print n, line; for (i = 1; i <= 2; i++) t = t i; x = $2 == 2 ? f($1) : "none"; print t, x } function f(v) { return v v }'
