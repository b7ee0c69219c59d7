# run: shadowing/main.py
