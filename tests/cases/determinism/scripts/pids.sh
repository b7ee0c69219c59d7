echo $$ $BASHPID $PPID; sleep 1 & echo $!; (echo $$ $BASHPID); bash -c 'echo $$ $PPID'; wait; sleep 2 & jobs -l; kill %1; wait; echo $?
