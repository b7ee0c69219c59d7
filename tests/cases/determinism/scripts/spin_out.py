# exit: 125
# fuel: 300000000
import sys
n = 0
while True:
    n += 1
    if n % 1000 == 0:
        print(n, flush=True)
        open("/workspace/count", "w").write(str(n))
