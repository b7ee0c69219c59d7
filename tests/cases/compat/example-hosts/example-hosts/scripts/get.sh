curl -s https://api.example.org/v1
