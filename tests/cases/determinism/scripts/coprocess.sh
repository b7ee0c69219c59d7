mkfifo /tmp/p 2>/dev/null && echo fifo; exec 3> >(sed 's/^/3: /'); echo one >&3; date +%s >&3; exec 3>&-; wait; sleep 1; echo end
