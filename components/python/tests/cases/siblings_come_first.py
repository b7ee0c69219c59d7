# run: siblings/main.py
