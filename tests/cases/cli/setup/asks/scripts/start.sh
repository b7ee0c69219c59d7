sed p /dev/null
