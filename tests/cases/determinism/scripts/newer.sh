cd /workspace; echo 1 > a; sleep 2; echo 2 > b; [ b -nt a ] && echo newer; [ a -ot b ] && echo older; touch -d '2020-02-02 02:02:02' a; ls -l a b; cp -p a c; mv b d; ls -l --time-style=+%s
