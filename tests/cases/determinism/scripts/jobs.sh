for n in 5 3 1 4 2; do (sleep 0.$n; echo "job $n" $RANDOM) & done; wait; for n in 1 2 3; do (for k in 1 2 3; do echo $n.$k; done) & done; wait
