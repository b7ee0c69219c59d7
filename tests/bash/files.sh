#--- making and removing
mkdir a; mkdir -p b/c/d; touch a/f; ls; rmdir a 2>/dev/null || echo full; rm a/f; rmdir a; rm -r b; ls; rm nofile 2>/dev/null; echo $?; rm -f nofile; echo $?
#--- copying
echo x > f; cp f g; mkdir d; cp f g d; cp -r d e; ls e; cp -r d e; ls e; cp d z 2>/dev/null; echo $?; cp -a d w; ls w; cp f d/../h; cat h
#--- moving
echo x > f; mv f g; mkdir d; mv g d; ls d; mv d e; ls; touch a b; mv a b e; ls e; mv nofile x 2>/dev/null; echo $?; echo 1 > p; echo 2 > q; mv -n p q; cat q
#--- links
echo x > f; ln -s f l; readlink l; cat l; ln f h; echo y >> h; cat f; [ -L l ] && echo link; rm l; ls; ln -s nowhere bad; [ -e bad ] || echo dangling; ln -sf f bad; cat bad
#--- symbolic links
cd "$(mktemp -d)"; echo x > f; ln -s f l; readlink l; cat l; [ -L l ] && [ -f l ] && echo link to a file; mkdir d; echo y > d/g; ln -s d e; cat e/g; ls e; ls -F; ls -l l | cut -c1; find . -type l | sort; echo z >> l; cat f; rm l; ls
ln -s nowhere bad; [ -e bad ] || [ ! -L bad ] || echo dangling; cat bad 2>/dev/null; echo $?; ln -sf f bad; cat bad; ln -s d bad 2>/dev/null; echo $?; rm -r e; ls d; ln -s loop loop; cat loop 2>/dev/null; echo $?
#--- symbolic links by canonical paths
cd "$(mktemp -d)"; mkdir -p a/b; ln -s a/b c; echo 1 > a/b/f; ln -s "$PWD/a" abs; cat abs/b/f; [ "$(readlink -f c)" = "$(realpath a/b)" ] && echo same; basename "$(readlink -f c/f)"; cd c; basename "$PWD"; basename "$(pwd -P)"; ls; cd ..; ls; ln -s ../../f a/b/up; cat a/b/up 2>/dev/null || echo none; echo top > f; cat c/up
#--- copies of symbolic links
cd "$(mktemp -d)"; echo x > f; ln -s f l; cp l copy; [ -L copy ] || cat copy; cp -P l kept; readlink kept; mkdir d; cp -a l d/; readlink d/l; mv l m; readlink m; rm m; cat f
#--- modes in other shells
cd "$(mktemp -d)"; printf '#!/bin/bash\necho ran $1\n' > tool; chmod +x tool; bash -c '[ -x tool ] && echo executable'; chmod 640 tool; bash -c 'stat -c %a tool; [ -x tool ] || echo not any more'; mv tool other; bash -c 'stat -c %a other'
#--- listing
touch b a .h; mkdir d; ls; ls -a; ls -A; ls -1 | head -2; ls -d d; ls -F; ls nofile 2>/dev/null; echo $?; ls -r; ls a b d
#--- listing by size and time
printf 12345 > big; printf 1 > small; ls -S; touch -d '2020-01-01' small; touch -d '2021-01-01' big; ls -t; ls -tr
#--- find by name and type
mkdir -p a/b; touch a/x.txt a/b/y.txt a/z.md; find . -name '*.txt' | sort; find . -type d | sort; find . -maxdepth 1 | sort; find a -type f ! -name '*.md' | sort; find . -iname 'X*' ; find . -mindepth 2 -name '*.md'
#--- find with alternatives
touch a.py b.sh c.txt; find . \( -name '*.py' -o -name '*.sh' \) -type f | sort; mkdir skip; touch skip/a.py; find . -path ./skip -prune -o -name '*.py' -print; find . -name skip -prune -o -type f -print | sort
#--- find running commands
touch a.txt b.txt; find . -name '*.txt' -exec echo got {} \; | sort; find . -name '*.txt' -exec wc -c {} + | sort | head -1; find . -name '*.txt' -print0 | xargs -0 ls; find . -name a.txt -delete; ls; find . -type f -exec sh -c 'echo "sh $1"' _ {} \;
#--- find by size and time
printf 'x%.0s' {1..2000} > big; : > empty; find . -type f -size +1k; find . -type f -empty; touch -d '10 days ago' old; find . -type f -mtime +5; find . -newer old -type f | sort; find . -type f -printf '%f %s\n' | sort
#--- stat
printf hello > f; stat -c '%s %n %F' f; mkdir d; stat -c %F d; stat -c '%a' f; touch -d '2024-01-02 03:04:05 UTC' f; stat -c %Y f
#--- touch and dates of files
touch -d '2024-05-06 07:08:09' f; date -r f '+%Y-%m-%d %H:%M:%S'; touch -t 202001020304 g; date -r g +%F; touch -r f g; [ f -nt g ] || [ f -ot g ] || echo same; touch -c nofile; [ -e nofile ] || echo not made
#--- permissions
touch f; chmod +x f; [ -x f ] && echo x; chmod 600 f; stat -c %a f; chmod u+x,g+r f; stat -c %a f; chmod 755 f; ls -l f | cut -c1-10
#--- names and folders
basename /a/b/c.txt; basename /a/b/c.txt .txt; dirname /a/b/c.txt; dirname file; basename -a /x/1 /y/2; dirname /a/b/; basename /
#--- paths relative to others
realpath -m --relative-to=/a/b /a/c
#--- paths that are real
mkdir -p a/b; cd a/b; basename "$(pwd)"; cd ../..; basename "$(realpath a/../a/b)"; pushd a > /dev/null; basename "$PWD"; popd > /dev/null; cd a && cd - > /dev/null; [ -d a ] && echo back
#--- temporary files
f=$(mktemp); [ -f "$f" ] && echo file; d=$(mktemp -d); [ -d "$d" ] && echo dir; rm -rf "$f" "$d"; t=$(mktemp ./x.XXXXXX); [[ $t == ./x.?????? ]] && echo name; rm "$t"; mktemp -u | grep -c tmp
#--- disk usage
mkdir d; printf x > d/f; du -s d | cut -f2; df . > /dev/null && echo ok; du -sh d | cut -f2
#--- tar
mkdir d; echo one > d/a; echo two > d/b; tar cf t.tar d; tar tf t.tar | sort; rm -r d; tar xf t.tar; cat d/a; tar czf t.tgz d; tar tzf t.tgz | sort; mkdir out; tar xzf t.tgz -C out; cat out/d/b; tar -xOf t.tar d/a; rm t.tar t.tgz
#--- tar options
mkdir d; echo a > d/a; echo b > d/skip.log; tar --exclude='*.log' -cf t.tar -C d .; tar -tf t.tar | sort; mkdir x; tar -xf t.tar -C x --strip-components=1; ls x; tar -czvf v.tgz d | sort; rm t.tar v.tgz
#--- gzip
echo data > f; gzip f; ls; gunzip f.gz; cat f; gzip -c f > g.gz; zcat g.gz; gzip -k f; ls; gzip -dc g.gz; echo piped | gzip | gunzip; rm *.gz
#--- zip
mkdir d; echo a > d/a; echo b > b; zip -q z.zip b; zip -qr r.zip d b; unzip -l r.zip | awk '{print $4}' | grep -E '^(b|d/a)$' | sort; mkdir o; unzip -q r.zip -d o; cat o/d/a; unzip -p r.zip b; unzip -o -q z.zip; cat b; rm *.zip
#--- xargs
printf 'a b\nc\n' | xargs; printf 'a\nb\n' | xargs -n1 echo x; printf 'a\nb\n' | xargs -I{} echo '<{}>'; echo 'a b' | xargs -d ' ' -n1 echo; true | xargs -r echo never; seq 4 | xargs -n2; printf '1\n2\n' | xargs -P2 -n1 echo | sort
#--- xargs codes
printf 'a\n' | xargs false; echo $?; printf 'nofile\n' | xargs cat 2>/dev/null; echo $?; echo x | xargs nosuch_command 2>/dev/null; echo $?
#--- date of a moment
date -u -d '2024-01-15 10:30:00' '+%Y-%m-%d %H:%M:%S'; date -u -d @0 +%FT%TZ; date -u -d '2024-02-28 +2 days' +%F; date -u -d '2024-03-31 -1 month' +%F; date -u -d '2024-01-01' '+%a %b %e %j %U %s'; date -u -d '2024-06-01T12:00:00Z' -Iseconds
#--- date arithmetic
date -u -d '2024-01-31 1 day ago' +%F; a=$(date -u -d 2024-01-01 +%s); b=$(date -u -d 2024-03-01 +%s); echo $(( (b - a) / 86400 )); date -u -d 'next monday' +%u; date -u -d '2024-12-25' +%A; date -u -d 'Jan 5 2023' +%D
#--- date formats
date -u -d @1700000000 '+%H:%M %I %p %y %m %d %B %Z %z %N' ; date -u -d @1700000000 -R; date -u -d @1700000000 +%s%3N; TZ=UTC date -d @1700000000 +%c; date -u -d @1700000000 --iso-8601; date +%Y | grep -cE '^20[0-9]{2}$'
#--- bad dates
date -d 'not a date' 2>/dev/null; echo $?
#--- who and where
uname -s; [ -n "$(hostname)" ] && echo host; [ "$(id -u)" -ge 0 ] && echo id; whoami > /dev/null && echo me; nproc > /dev/null && echo cpus
#--- which
which ls > /dev/null && echo found; which nosuch_cmd > /dev/null; echo $?; command -v grep > /dev/null && echo grep; hash ls && echo hashed; type nosuch_cmd 2>/dev/null; echo $?
#--- sleeping
s=$(date +%s%N); sleep 0.2; e=$(date +%s%N); [ $(( (e - s) / 1000000 )) -ge 200 ] && echo slept; sleep 0; echo $?
#--- dd
printf abcdef | dd bs=2 count=2 2>/dev/null; echo; dd if=/dev/zero of=z bs=1k count=3 2>/dev/null; wc -c < z; printf abcdef > f; dd if=f bs=1 skip=3 2>/dev/null; echo
#--- devices
echo gone > /dev/null; cat /dev/null | wc -c; head -c 8 /dev/urandom | wc -c; head -c 3 /dev/zero | xxd -p; [ "$(head -c 16 /dev/urandom | md5sum)" != "$(head -c 16 /dev/urandom | md5sum)" ] && echo random; echo out > /dev/stdout; echo in | cat /dev/stdin; tr -dc a-z < /dev/urandom | head -c 5 | wc -c
#--- install and truncate
echo x > f; install -m 755 f g; cat g; truncate -s 3 t; wc -c < t; install -d a/b && ls a; truncate -s 0 f; wc -c < f
#--- tree of a folder
mkdir -p a/b; touch a/f a/b/g; (cd a && find . | sed 's|[^/]*/|  |g' | sort)
#--- logging to a file
log() { printf '[%s] %s\n' "$1" "${*:2}" >> app.log; }; log INFO started now; log ERROR bad thing; cat app.log; grep -c ERROR app.log
#--- lock by folder
mkdir lock 2>/dev/null && echo locked; mkdir lock 2>/dev/null || echo busy; rmdir lock
#--- config file read
printf 'name=test\n# comment\nport = 80\n' > conf; while IFS='=' read -r k v; do [[ $k =~ ^# ]] && continue; k=${k// /}; v=${v// /}; echo "$k -> $v"; done < conf; source <(grep '^name' conf); echo "$name"
#--- csv by hand
printf 'id,name\n1,ann\n2,bob\n' > t.csv; tail -n +2 t.csv | while IFS=, read -r id name; do echo "$name:$id"; done; awk -F, 'NR > 1 {print $2}' t.csv; cut -d, -f2 t.csv | tail -n 1
#--- backups with dates
echo data > f.txt; b="f.$(date -u -d @0 +%Y%m%d).txt"; cp f.txt "$b"; ls; for f in *.txt; do echo "${f%.txt}"; done
#--- reading a file into a variable
printf 'a\nb\n' > f; c=$(< f); echo "$c"; c=$(cat f | tr '\n' ' '); echo "$c|"
#--- patch
printf 'a\nb\n' > f; printf 'a\nc\n' > g; diff -u f g > p; patch -s f < p; cat f; rm p
#--- writing under a file
touch f; echo x > f/y 2>/dev/null; echo $?; mkdir f 2>/dev/null; echo $?; cat . 2>/dev/null; echo $?; rmdir nodir 2>/dev/null; echo $?
#--- names with spaces and odd letters
touch 'a b' "c'd" 'é' '-dash'; ls -1 | LC_ALL=C sort; rm -- -dash; for f in *; do printf '[%s]' "$f"; done; echo; find . -name '* *' -print
#--- counting files
mkdir d; touch d/1 d/2 d/3; ls d | wc -l; find d -type f | wc -l; n=$(ls -1 d | wc -l); echo "n=$n"; a=(d/*); echo ${#a[@]}
#--- sums of folders
mkdir d; echo a > d/x; echo b > d/y; find d -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum
#--- watch for a file
(sleep 0.1; touch ready) & for i in 1 2 3 4 5 6 7 8 9 10; do [ -f ready ] && break; sleep 0.1; done; [ -f ready ] && echo ready; wait
#--- heredoc to a file and back
cat > out.json <<EOF
{"a": [1, 2, $((1 + 2))]}
EOF
cat out.json; cat > s.sh <<'EOF'
echo "arg: $1"
EOF
bash s.sh x
#--- umask
umask; umask -S; umask 077; echo x > f; mkdir d; touch g; stat -c '%a %n' f d g; (umask 0; echo > h; stat -c %a h); umask; umask u=rwx,g=rx,o=; cp f k; stat -c %a k; bash -c 'umask; echo > b; stat -c %a b'; umask 9; echo $?; umask -p; umask g+w; umask -S; echo y >> f; stat -c %a f; x=$(umask 022; umask); echo $x $(umask)
#--- a pipe whose reader is gone
yes | head -1; echo ${PIPESTATUS[0]}; set -o pipefail; yes | head -n 2 > /dev/null; echo $?; seq 100000 | head -1; echo "${PIPESTATUS[@]}"; while :; do echo y; done | head -1; echo $?; (yes; echo never) | head -1; echo "${PIPESTATUS[*]}"
#--- named pipes
mkfifo p; [ -p p ] && echo pipe; echo hello > p & cat p; wait; ls -l p | cut -c1; stat -c %F p; { echo a; echo b; } > p & while read -r l; do echo "<$l>"; done < p; wait; mkfifo p 2> /dev/null; echo $?; cat < p | tr a-z A-Z & echo text > p; wait; rm p; [ -e p ] || echo gone
#--- a named pipe and a loop
mkfifo in out; (while read -r line; do echo "got $line"; done < in > out) & (echo one; echo two) > in & cat out; wait; rm in out
#--- a named pipe as a semaphore
mkfifo p; exec 3<>p; rm p; printf xx >&3; for i in 1 2 3; do read -r -u 3 -n 1 t; (echo "job $i $t"; printf x >&3) & wait; done; exec 3>&-
#--- tee to a named pipe
mkfifo p; (tr a-z A-Z < p > up) & seq 3 | sed 's/^/n/' | tee p | wc -l; wait; cat up; rm p
#--- exec and a named pipe
mkfifo p; cat p > copy & exec 4> p; echo first >&4; echo second >&4; exec 4>&-; wait; cat copy; (echo x; echo y) > p & exec 5< p; read -u 5 a; read -u 5 b; echo "$a $b"; exec 5<&-; rm p
#--- a script in the path
mkdir bin; printf '#!/bin/bash\necho "tool $# $1"\n' > bin/mytool; chmod +x bin/mytool; PATH=./bin:$PATH; mytool a b; command -v mytool | sed "s|$PWD|.|"; type -t mytool; printf '#!/usr/bin/env bash\nexit 5\n' > bin/five; chmod 755 bin/five; five; echo $?; rm bin/five; hash -r; five 2> /dev/null; echo $?; echo 'echo plain' > bin/plain; chmod u+x bin/plain; plain; find bin -perm -u+x | sort
