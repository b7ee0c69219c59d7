# run: -m pkg a b
