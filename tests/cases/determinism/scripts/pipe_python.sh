seq 1 5000 | python3 -c 'import sys, random; print(sum(map(int, sys.stdin)), random.random())' | tee /workspace/out.txt
for n in 1 2 3; do python3 -c "import random; print($n, random.random())" & done; wait; python3 -c 'print("x" * 200000)' | wc -c
