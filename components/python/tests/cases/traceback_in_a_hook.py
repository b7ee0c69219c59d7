# run: hooks/broken.py
