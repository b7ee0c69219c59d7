#!/usr/bin/env bash
set -euo pipefail
# usage: summary.sh FILE [TOP]
file=${1:?file}
top=${2:-5}

echo "== by region"
awk -F, 'NR > 1 && NF == 5 && $4 != "" { sum[$2] += $4 * $5; n[$2]++ }
END { for (r in sum) printf "%s %.2f %d\n", r, sum[r], n[r] }' "$file" | sort -k2,2nr -k1,1 | head -n "$top" |
    awk '{ total += $2; line[NR] = $0; value[NR] = $2 }
         END { for (i = 1; i <= NR; i++) printf "%-40s %5.1f%%\n", line[i], 100 * value[i] / total }'

echo "== months"
awk -F, -v OFS='\t' '
    function max(a, b) { return a > b ? a : b }
    NR == 1 { next }
    NF != 5 { bad[++nbad] = NR ": " $0; next }
    { split($1, d, "-"); key = d[1] "-" d[2]; qty[key] += $4; most[key] = max(most[key] + 0, $4) }
    END {
        for (k in qty) print k, qty[k], most[k] | "sort"
        close("sort")
        for (i = 1; i <= nbad; i++) print "bad line " bad[i]
    }' "$file"

echo "== products"
tail -n +2 "$file" | cut -d, -f3 -s | sort | uniq -c | sort -rn | while read -r count product; do
    printf '%-8s %s\n' "$product" "$(printf '#%.0s' $(seq 1 "$count"))"
done

echo "== text tools"
awk 'BEGIN { s = "The quick brown fox"; n = split(s, w, " "); for (i = n; i > 0; i--) printf "%s%s", w[i], (i > 1 ? " " : "\n")
    print length(s), toupper(substr(s, 5, 5)), index(s, "quick"); gsub(/o/, "0", s); print s
    if (match(s, /br[0-9]wn/)) print RSTART, RLENGTH; print substr("hello", 2), sprintf("%05d|%-5s|%5.2f|%x|%c", 42, "ab", 3.14159, 255, "A")
    print 1e6, 0.1 + 0.2, 10 / 3, int(-3.7), 2 ^ 10, 7 % 3; x["a"] = 1; print ("a" in x), ("b" in x); delete x["a"]; print length("") }'
grep -n 'tea' "$file" | sed -n 's/^\([0-9]*\):\([0-9-]*\),.*,\([^,]*\)$/\2 line \1 price \3/p'
paste -d' ' <(cut -d, -f2 "$file" | head -3) <(cut -d, -f4 "$file" | head -3)
echo "$(grep -c . "$file") lines, $(awk -F, '{ print NF }' "$file" | sort -n | tail -1) fields at most"
