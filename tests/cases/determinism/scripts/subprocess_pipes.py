import subprocess, sys
upper = subprocess.Popen([sys.executable, "-c", "import sys\nfor line in sys.stdin: print(line.strip().upper(), flush=True)"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
for word in ["a", "bc", "d" * 5000]:
    upper.stdin.write(word + "\n"); upper.stdin.flush()
    print(len(upper.stdout.readline()))
upper.stdin.close(); print(upper.wait())
big = subprocess.run("seq 1 40000 | grep 7 | sort -R | head -5; seq 5 | shuf", shell=True, capture_output=True, text=True)
print(big.stdout, big.returncode)
