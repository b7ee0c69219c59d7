date; date -u +%FT%T.%N; date +%s; sleep 90; date -R; date -d tomorrow +%F; printf '%(%F %T)T\n' -1
