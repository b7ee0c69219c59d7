bash -c "$(curl -fsSL https://get.example.com/install.sh)"
