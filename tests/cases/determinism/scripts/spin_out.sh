# exit: 125
# fuel: 300000000
n=0; while :; do n=$((n + 1)); echo $n; echo $n > /workspace/count; done
