#--- grep basics
printf 'apple\nBanana\ncherry\n' > f; grep an f; grep -i AN f; grep -v an f; grep -c a f; grep -n a f; grep -q zzz f; echo $?
#--- grep extended
printf 'a1\nb22\nc\n' | grep -E '[0-9]{2}|^c$'; printf 'foo bar\n' | grep -o '[a-z]*' ; echo 'x=1 y=2' | grep -oE '[a-z]=[0-9]'
#--- grep perl
echo 'price: 42 EUR' | grep -oP '\d+(?= EUR)'; echo 'key: value' | grep -oP '(?<=key: )\w+'; echo abc | grep -P 'a\Kb'
#--- grep context
seq 10 > f; grep -A1 5 f; grep -B1 5 f; grep -C1 '^5$' f
#--- grep many files
echo hit > a; echo miss > b; mkdir d; echo hit > d/c; grep hit a b; grep -l hit a b; grep -L hit a b; grep -rn hit . | sort; grep -rl hit --include='c' .; grep -h hit a d/c
#--- grep fixed and words
printf 'a.b\naxb\nword words\n' > f; grep -F a.b f; grep -w word f; grep -x axb f; grep -e a.b -e word f; printf 'axb\n' > pat; grep -f pat f; grep -m1 a f
#--- grep codes
echo x | grep -q x && echo yes; echo x | grep -q y || echo no; grep x nofile 2>/dev/null; echo $?; grep -s x nofile; echo $?
#--- sed substitutions
echo 'hello world' | sed 's/o/0/'; echo 'hello world' | sed 's/o/0/g'; echo 'hello world' | sed 's/o/0/2'; echo Path | sed 's|P|/p|; s/a/A/'; echo abc | sed 's/b/[&]/'
#--- sed extended
echo 'John Smith' | sed -E 's/(\w+) (\w+)/\2, \1/'; echo 'a1b2' | sed -E 's/[0-9]+/<&>/g'; echo 'aaa' | sed 's/a\{2\}/b/'; echo Foo | sed 's/foo/bar/I'
#--- sed addresses
seq 10 | sed -n '3p'; seq 10 | sed -n '2,4p'; seq 10 | sed '/5/,$d'; seq 5 | sed '$d'; seq 5 | sed -n '$p'; seq 10 | sed -n '0~3p'; seq 6 | sed '2!d'
#--- sed editing
seq 3 | sed '2i\before' ; seq 3 | sed '2a after'; seq 3 | sed '2c changed'; seq 3 | sed '/2/s/$/!/'; printf 'a\n\nb\n' | sed '/^$/d'
#--- sed in place
echo one > f; sed -i 's/one/two/' f; cat f; sed -i.bak 's/two/three/' f; cat f f.bak; sed -i -e '1i\top' -e '$a bottom' f; cat f
#--- sed hold space
seq 4 | sed -n 'h;n;G;p'; seq 5 | sed '1!G;h;$!d'; printf 'a\nb\nc\n' | sed ':a;N;$!ba;s/\n/,/g'; seq 6 | sed 'N;s/\n/-/'
#--- sed special
printf 'a\tb\n' | sed 's/\t/ /'; echo 'a/b' | sed 's/\//-/'; echo hello | sed 'y/el/ip/'; echo 'hello world' | sed 's/\bw/W/; s/\(h\)/\U\1/'; seq 3 | sed -n '2{p;q}'; seq 3 | sed = | sed 'N;s/\n/ /'
#--- sed ranges by pattern
printf 'x\nSTART\na\nb\nEND\ny\n' | sed -n '/START/,/END/p'; printf 'x\nSTART\na\nEND\ny\n' | sed '/START/,/END/{/START/n;/END/!d}'
#--- awk fields
printf 'a b c\nd e f\n' | awk '{print $1, $3}'; printf 'a:b:c\n' | awk -F: '{print $2}'; echo 'a b c' | awk '{print NF, $NF, $(NF-1)}'; printf 'x\ny\n' | awk '{print NR": "$0}'
#--- awk patterns
seq 10 | awk '$1 > 7'; seq 10 | awk 'NR==2,NR==4'; printf 'foo 1\nbar 2\n' | awk '/bar/ {print $2}'; seq 3 | awk 'END {print NR}'; printf 'a\nb\n' | awk 'BEGIN {print "start"} {print} END {print "end"}'
#--- awk sums and arrays
printf 'a 1\nb 2\na 3\n' | awk '{s[$1] += $2} END {for (k in s) print k, s[k]}' | sort; seq 5 | awk '{t += $1} END {print t, t/NR}'; printf 'x\nx\ny\n' | awk '!seen[$0]++'
#--- awk variables and formats
awk -v n=5 -v s='a b' 'BEGIN {print n * 2, s; printf "%5.2f|%-5s|%03d\n", 3.14159, "x", 7}'; echo '1,2,3' | awk 'BEGIN {FS=","; OFS="-"} {$1=$1; print}'
#--- awk functions
awk 'BEGIN {print length("hello"), substr("hello", 2, 3), index("hello", "l"), toupper("abc"), tolower("ABC")}'; echo 'a-b-c' | awk '{n = split($0, p, "-"); print n, p[1], p[3]}'; echo 'foo bar foo' | awk '{gsub(/foo/, "X"); print; sub(/X/, "Y"); print}'; awk 'BEGIN {if (match("abc123", /[0-9]+/)) print RSTART, RLENGTH; print sprintf("%d%%", 50)}'
#--- awk control
awk 'BEGIN {for (i = 0; i < 3; i++) printf "%d ", i; while (i > 0) i--; do i++; while (i < 2); print i; exit 3}'; echo $?; awk 'function f(x) {return x * 2} BEGIN {print f(21)}'
#--- awk with regular expressions
printf 'err: a\nok: b\n' | awk '$1 ~ /err/ {print "E", $2} $1 !~ /err/ {print "O", $2}'; echo 'a1b22' | awk -F'[0-9]+' '{print $1 $2, NF}'; printf '2024-01-05 x\n' | awk -F'[- ]' '{print $3"."$2"."$1}'
#--- awk reading and writing
printf 'l1\nl2\n' > f; awk 'BEGIN {while ((getline line < "f") > 0) print "got " line}'; printf 'a 1\nb 2\n' | awk '{print $2 > $1".out"}'; cat a.out b.out; awk 'FNR==1 {print FILENAME}' f a.out; awk 'NR==FNR {a[$1]; next} $1 in a' f f
#--- awk ternary and strings
seq 4 | awk '{print $1 % 2 ? "odd" : "even"}'; awk 'BEGIN {x = "a" "b"; print x 1 + 1; print 1 == 1.0, "a" < "b", 10 % 3, 2 ^ 8}'; awk 'BEGIN {print substr("hello", 0), -3 % 2, int(3.9), 1e3}'
#--- sort
printf 'b\na\nc\n' | sort; printf '10\n9\n100\n' | sort -n; printf '10\n9\n' | sort; printf 'a\nb\na\n' | sort -u; printf 'a\nc\nb\n' | sort -r; printf '2K\n1M\n3\n' | sort -h; printf 'v1.10\nv1.9\nv1.2\n' | sort -V
#--- sort by keys
printf 'b 2\na 10\nc 1\n' | sort -k2 -n; printf 'b:2\na:10\nc:1\n' | sort -t: -k2,2nr; printf 'x 1\ny 1\na 0\n' | sort -s -k2,2; printf 'B\na\nC\n' | sort -f; printf 'a\nb\n' | sort -c && echo sorted
#--- uniq
printf 'a\na\nb\na\n' | uniq; printf 'a\na\nb\n' | uniq -c; printf 'a\na\nb\n' | uniq -d; printf 'a\na\nb\n' | uniq -u; printf 'A\na\n' | uniq -i
#--- counting words
printf 'b\na\nb\n' | sort | uniq -c | sort -rn | awk '{print $2, $1}'; printf 'the cat the dog\n' | tr ' ' '\n' | sort | uniq -c | sort -k1,1nr -k2
#--- cut
echo 'a:b:c' | cut -d: -f2; echo 'a:b:c:d' | cut -d: -f1,3-; echo hello | cut -c2-4; printf 'a\tb\n' | cut -f2; echo 'a b' | cut -d' ' -f2 --output-delimiter=x; echo nodelim | cut -d: -f1 -s; echo abcdef | cut -c-3; echo 'x:y:z' | cut -d: --complement -f2
#--- tr
echo hello | tr a-z A-Z; echo 'a  b' | tr -s ' '; echo a1b2 | tr -d 0-9; echo 'a,b' | tr , '\n'; echo 'Hello 1' | tr '[:upper:]' '[:lower:]'; echo 'a!b' | tr -cd '[:alnum:]\n'; echo abc | tr abc xy
#--- head and tail
seq 20 | head -n 3; seq 20 | tail -n 2; seq 5 | head -n -2; seq 5 | tail -n +4; echo abcdef | head -c 3; echo; echo abcdef | tail -c 3; seq 3 > a; seq 2 > b; head -n 1 a b; seq 3 | head -2; tail -1 a
#--- wc
printf 'one two\nthree\n' > f; wc -l f; wc -w < f; wc -c < f; wc f; printf 'x' | wc -l; wc -l f f; printf 'longest\nx\n' | wc -L
#--- paste
seq 3 > a; printf 'x\ny\nz\n' > b; paste a b; paste -d, a b; paste -s a; paste -sd+ a; seq 4 | paste - -
#--- join and comm
printf '1 a\n2 b\n' > x; printf '1 c\n3 d\n' > y; join x y; join -a 1 x y; printf 'a\nb\n' > p; printf 'b\nc\n' > q; comm p q; comm -12 p q; comm -23 p q
#--- column
printf 'a bb c\nddd e f\n' | column -t; printf 'a:b\ncc:d\n' | column -t -s:; printf 'n,v\nx,1\n' | column -t -s, -o ' | '
#--- nl, tac, rev
printf 'a\n\nb\n' | nl; printf 'a\nb\n' | nl -ba; seq 3 | tac; echo abc | rev; printf 'x\ny\n' | cat -n; printf 'a\tb\n' | cat -A
#--- fold
echo abcdefghij | fold -w 4; echo 'one two three four' | fold -s -w 9
#--- expand
printf 'a\tb\n' | expand; printf 'a\tb\n' | expand -t 4; printf '        x\n' | unexpand
#--- seq
seq 3; seq 2 4; seq 1 2 7; seq -s, 3; seq -w 8 10; seq 3 -1 1; seq 0 0.5 1; seq -f '%03g' 2
#--- diff
printf 'a\nb\nc\n' > x; printf 'a\nB\nc\nd\n' > y; diff x y; echo $?; diff -u x y | tail -n +3; diff -q x y; diff x x && echo same
#--- cmp
echo a > x; echo b > y; cmp x y; echo $?; cmp -s x x && echo same
#--- base64
echo hello | base64; echo aGVsbG8K | base64 -d; printf 'x%.0s' {1..80} | base64; printf 'x%.0s' {1..80} | base64 -w0; echo; printf '\377\000\376' | base64
#--- checksums
printf abc | md5sum; printf abc | sha1sum; printf abc | sha256sum; printf abc | sha512sum | cut -c1-20; printf abc > f; sha256sum f > sums; sha256sum -c sums; cksum < f
#--- xxd and od
printf 'AB\n' | xxd; printf 'AB' | xxd -p; echo 4142 | xxd -r -p; echo; printf 'AB' | od -An -tx1; printf 'hi\n' | od -c; printf 'A' | hexdump -C
#--- bytes that are no text
printf '\xff\x00\xfe' | xxd -p; printf '\xff\xfe' > f; wc -c < f; cat f | xxd -p; head -c 1 f | xxd -p; printf 'a\0b\0' | tr '\0' '\n'; cp f g; cmp f g && echo same
#--- nul separated
printf 'b\0a\0' | sort -z | tr '\0' '\n'; printf 'a b\0c\0' | xargs -0 -n1 echo; printf 'x\0y\0' | while IFS= read -r -d '' i; do echo "[$i]"; done
#--- large values
x=$(head -c 3000000 /dev/zero | tr '\0' a); echo ${#x}; seq 200000 | wc -l; seq 100000 | tail -n 1; seq 20000 | awk '{s+=$1} END {print s}'; head -c 2000000 /dev/zero | wc -c
#--- many iterations
i=0; while [ $i -lt 15000 ]; do i=$((i + 1)); done; echo $i; for i in {1..12000}; do :; done; echo $i
#--- tee
echo x | tee a b; cat a b; echo y | tee -a a > /dev/null; cat a
#--- split
seq 5 > f; split -l 2 f part_; ls part_*; cat part_ab; split -b 4 -d f n; ls n*
#--- shuf keeps its lines
seq 10 | shuf | sort -n | paste -sd' '; shuf -n 2 -i 1-9 | wc -l; shuf -e a b c | sort | paste -sd,
#--- bc
echo '2 + 3 * 4' | bc; echo 'scale=3; 10 / 3' | bc; echo '2 ^ 10' | bc; echo '1.5 > 1' | bc; echo 'sqrt(16)' | bc; echo 'scale=2; x=5; x/2' | bc -l
#--- expr
expr 2 + 3; expr 7 % 4; expr length hello; expr substr hello 2 3; expr abc : 'a\(.*\)'; expr 1 = 2; echo $?
#--- envsubst
export WHO=me; echo 'hi $WHO ${WHO} $OTHER' | envsubst; echo '$WHO $HOME_X' | envsubst '$WHO'
#--- iconv
printf 'caf\xe9\n' | iconv -f latin1 -t utf-8
#--- iconv to bytes that are no utf-8
printf 'é' | iconv -f utf-8 -t latin1 | xxd -p
#--- strings
printf 'ab\0hello world\0xy\n' | strings; printf '\1\2text\3' | strings -n 3
#--- numfmt
echo 1048576 | numfmt --to=iec; echo 1500 | numfmt --to=si; echo 2K | numfmt --from=iec
#--- factor and tsort
factor 12 97; printf 'a b\nb c\n' | tsort
#--- diff of trees
mkdir -p d/s e/s; echo a > d/x; echo b > e/x; echo c > d/only; echo d > e/s/new; diff -r d e; echo $?; diff -rq d e; diff -r d d; echo $?; diff -s d/x d/x
#--- awk goes on after a pipe is closed
awk 'BEGIN { print "b" | "sort"; print "a" | "sort"; close("sort"); print "after"; print "again" }'
#--- sed ends its input
yes | sed 3q; (yes) | sed q; yes | sed -n '5{p;q}'; yes | sed s/y/n/ | head -2; echo "${PIPESTATUS[@]}"; seq 9 | { sed 2q; }
#--- sed and the last line
printf 'a\nb\nc' | sed '$d'; printf 'a\nb' | sed -n '$='; seq 10 | sed '$!d'; printf 'a\nb' | sed 's/b/c/'; seq 20000 | sed -n '$p;19999,$p' | tr '\n' ' '
#--- several streams of bzip2
echo a | bzip2 > f.bz2; echo b | bzip2 >> f.bz2; bunzip2 -c < f.bz2; bzcat f.bz2; echo rest >> f.bz2; bzcat f.bz2 2> /dev/null; echo $?
#--- numbers of bc
printf '%s\n' '1/3; scale=2; 1/3; -1/3; 1+1; 1.50-1.50; 1.20*1.5' '2^100; 2^-2; 7%3; 7.5%2; -2^2' 'sqrt(2); length(0.001); scale(1.20)' 'obase=16; 255; 0.5' 'ibase=16; FF; A.8' | bc
echo 'obase=20; 399; ibase=2; 1010; 1.1' | bc; echo '2^300' | bc; echo '0; 0.0; .5+.5; last+1; 3 == 3.0; !1; 1 && 0; 0 || 2' | bc
#--- programs of bc
printf 'define f(n) {\n  if (n <= 1) return 1\n  return n * f(n - 1)\n}\nf(30)\nfor (i = 0; i < 3; i++) i\nx[2] = 5; x[2]; x[3]\nprint "a\\n", 3, "\\n"\n"text"; 1\na = b = 4; a; a += 1; a++; ++a\n/* comment */ 5 # comment\nwhile (1) { n = n + 1; if (n > 3) break; n }\nquit\n6\n' | bc
echo '1/0; 2
3' | bc 2> /dev/null; echo '1 +
4' | bc 2> /dev/null; echo "scale=1; 0 / 1048576" | bc
#--- the library of bc
printf '%s\n' 's(1)' 'c(1)' 'a(1)*4' 'l(2)' 'e(1)' 'e(-3.5)' 'j(0,1)' 'e(10)' 's(100)' 'l(10)/l(2)' 'a(.1)' 'l(.5)' 'j(2,3)' 'scale=50; 4*a(1)' | bc -l
#--- awk and fold end with their reader or input
yes | awk '{ exit }'; echo "${PIPESTATUS[@]}"; yes | awk 'NR == 100000 { print NR; exit 3 }'; echo "${PIPESTATUS[@]}"; yes | awk '{ print NR }' | head -2; echo "${PIPESTATUS[@]}"
yes abc | fold -w 2 | sed 3q; echo "${PIPESTATUS[@]}"; yes | awk 'BEGIN { getline; print }'; awk 'BEGIN { while (1) print "y" }' | head -1; echo "${PIPESTATUS[@]}"
yes | awk '{ print | "cat" } NR == 2 { exit }'
#--- awk reads records as they come
{ printf 'a b'; printf 'c\nd'; printf ' e'; } | awk '{ print NF, $2 } END { print NR }'; { printf '1,2'; printf '3;4'; } | awk -v RS='[,;]' '{ print $0 }'; { printf 'a\n\n'; printf '\n\nb\nc\n\n'; } | awk -v RS= '{ print NR ": " $0; n = NF } END { print n }'
printf 'a%.0s' {1..5000} | awk '{ print length($0) }'; seq 30000 | awk '{ s += $1 } END { print s }'; seq 20000 | tr '\n' ' ' | awk '{ print NF, length($0) }'; printf 'x' | awk '{ print } END { print NR }'; printf '' | awk '{ print } END { print NR }'
#--- awk without input leaves it
printf 'a\nb\n' | while read -r l; do awk 'BEGIN { print "x" }'; echo "$l"; done; echo in | { awk 'BEGIN { print 1 }'; cat; }
#--- devices without end
cat /dev/zero | head -c 200000 | wc -c; cat /dev/urandom | true; echo "${PIPESTATUS[@]}"
#--- sed appends a file without a last newline
printf 'one' > f; printf 'a\nb\n' | sed 'r f'; printf 'a\nb' | sed '1r f'
#--- sqlite3 in columns
sqlite3 -column -header :memory: "CREATE TABLE t(a, \"long name\" TEXT, c REAL); INSERT INTO t VALUES(1, 'two words', 0.1), (-22, NULL, 1e20), ('é ü', 'it''s', 2.5);" '.nullvalue -' 'SELECT * FROM t;' '.width 4 -10 3' 'SELECT * FROM t;' '.headers off' 'SELECT a, c AS "C c" FROM t;'
#--- backslashes of read, printf, sed and awk
printf 'a   \,\\\\' | { while IFS=' :' read x y; do printf '[%s]' "$x" "$y"; echo; done; printf '<%s>' "$x" "$y"; }; echo
printf '\7\&,+\0101\\\'\'''; echo
printf 'foo.bar(baz)\na\\b\\n\n' | sed -E -s 'y/a\/b/1\\2/'
printf 'aaa bbb\nend\\\n' | awk -F= '{ sub("a+", "\\XX"); print }'
