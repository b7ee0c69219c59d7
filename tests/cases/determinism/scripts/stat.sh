cd /workspace; stat table.csv many 2>&1; stat -c '%n %s %Y %Z %X' * 2>&1; sleep 3; echo x >> doc.json; stat -c '%n %Y' doc.json; date +%s
