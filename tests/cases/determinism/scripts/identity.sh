hostname; uname -a; id; whoami; env | sort; pwd; echo $0 $# $UID $HOSTNAME $OSTYPE $BASH_VERSION $SHLVL; nproc; umask; tty; ulimit -n; set | grep -i seconds | head -3; true
