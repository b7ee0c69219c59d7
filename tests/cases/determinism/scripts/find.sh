cd /workspace; find .; find . -type f -newer table.csv; touch fresh; find . -newer table.csv; find . -name '*.txt' -exec wc -c {} +; find /data -type f
