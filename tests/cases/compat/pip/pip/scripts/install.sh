pip install requests
pip3 install "$1"
uv pip list
python3 -m pip --version
