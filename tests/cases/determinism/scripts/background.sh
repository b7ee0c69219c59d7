(while :; do sleep 1; echo tick; done) & sleep 3.5; echo stop; kill $!; wait $! 2>/dev/null; echo $?; (sleep 1000; echo never) & disown; echo last
