# run: -Z x.py
