# run: no_such_file.py
