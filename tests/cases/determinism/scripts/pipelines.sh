seq 1 20000 | awk '{s+=$1} END {print s}'; yes | head -3; seq 100000 | head -1; cat /workspace/table.csv | tee /workspace/copy | sort | uniq -c | sort -rn; echo ${PIPESTATUS[@]}
