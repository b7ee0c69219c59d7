# stderr: yes
# run: -c 'raise KeyError("k")'
# sandbox: CPython 3.11 shows no source of -c
