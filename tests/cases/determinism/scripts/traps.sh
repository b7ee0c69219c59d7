# exit: 5
trap 'echo bye $SECONDS' EXIT; trap 'echo usr $(date +%s)' USR1; kill -USR1 $$; sleep 2; (exit 3) || echo "code $?"; exit 5
