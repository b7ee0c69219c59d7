#!/bin/bash
# bash -> python -> bash -> python, with exit codes, streams and variables all the way.
set -u
DIR="$(cd "$(dirname "$0")" && pwd)"
export DEPTH=1
trap 'echo "bye from $$" | sed "s/[0-9]*$//"' EXIT

echo "== start in $(basename "$PWD")"
cat in.txt | python3 "$DIR/middle.py" --upper > middle.out 2> middle.err
code=$?
echo "middle ended with $code"
cat middle.out
sed 's/^/err: /' middle.err

echo "== order of streams"
{ echo one; python3 -c 'print("two")'; echo three; bash -c 'echo four'; } | cat -n
echo "== exec and source"
source "$DIR/lib.sh" from-source
greet "Welt"
(exec python3 -c 'import os; print("depth", os.environ["DEPTH"])')
bash -c 'echo "$0 $1 $#"' name a b
bash "$DIR/leaf.sh" 3 < /dev/null; echo "leaf $?"
"$BASH" -c 'echo same bash' 2> /dev/null || bash -c 'echo same bash'
echo 'echo "from stdin: $1"' | bash -s -- arg
timeout 60 python3 -c 'print("in time")'
env DEPTH=9 python3 -c 'import os; print(os.environ["DEPTH"])'
python3 "$DIR/middle.py" --help > /dev/null && echo "help ok"
nope-not-a-command 2> /dev/null; echo "missing $?"
python3 no-such-file.py 2> /dev/null; echo "no file $?"
[ "${1:-}" = "--fail" ] && exit 4
exit 0
