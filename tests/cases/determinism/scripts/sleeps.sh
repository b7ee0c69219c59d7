start=$SECONDS; sleep 3600; echo $((SECONDS - start)) $EPOCHSECONDS ${EPOCHREALTIME:-none}; sleep 1d; date; time sleep 0.5
