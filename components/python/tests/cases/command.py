# run: -c 'import sys; print(sys.argv, sys.path[0] == "")'
# argv: a -b
