seq 12 | xargs -P 4 -n 3 sh -c 'sleep 0.0$1; echo "$@"' _; ls /workspace/many | xargs -I{} echo '<{}>'; printf '%s\0' c a b | xargs -0 -n1 echo
