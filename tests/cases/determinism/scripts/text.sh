cd /workspace; sed -n 's/,/;/gp' table.csv; sort -t, -k3 -n table.csv | cut -d, -f1-2 | tr a-z A-Z; cat many/* | sort | uniq | nl; diff table.csv <(sort table.csv); od -c doc.json | head -3; cat > here <<END
$(date +%s) $RANDOM
END
cat here; wc here table.csv
