head -c 5; echo; python3 -c 'import sys; print(repr(sys.stdin.readline()))'; cat | wc -c
