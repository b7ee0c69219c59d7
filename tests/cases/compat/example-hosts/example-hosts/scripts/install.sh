pip install cowsay
