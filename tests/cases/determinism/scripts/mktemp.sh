mktemp; mktemp -d; mktemp -u /tmp/XXXXXXXXXX.log; for n in 1 2 3; do mktemp -p /workspace; done; ls /tmp /workspace
