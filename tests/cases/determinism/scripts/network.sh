curl -sS https://api.example.com/x; echo $?; curl -sS --max-time 3 http://127.0.0.1:9; echo $?; ping -c 1 localhost; echo $?
