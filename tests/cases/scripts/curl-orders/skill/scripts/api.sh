#!/usr/bin/env bash
# Talks to the shop's API.
set -euo pipefail

: "${API_URL:?API_URL must be set}"
: "${API_TOKEN:?API_TOKEN must be set}"

api() {
  local method=$1 path=$2; shift 2
  curl -sS -X "$method" -H "Authorization: Bearer $API_TOKEN" -H 'Accept: application/json' "$@" "$API_URL$path"
}

echo "health: $(api GET /health | jq -r '"\(.status) \(.version)"')"

page=1
while [[ $page != null ]]; do
  response=$(api GET "/users?page=$page")
  jq -r '.items[] | "\(.id)\t\(.name)\t\(.city)"' <<< "$response"
  page=$(jq -r '.next' <<< "$response")
done | tee users.tsv

for quantity in 2 0; do
  body=$(jq -n --arg sku "T-$quantity" --argjson q "$quantity" '{sku: $sku, quantity: $q, note: "grün"}')
  code=$(api POST /orders -H 'Content-Type: application/json' -d "$body" -o response.json -w '%{http_code}')
  case $code in
    2??) echo "order $(jq .id response.json) ($code)" ;;
    422) echo "refused: $(jq -r .error response.json)" ;;
    *) echo "unexpected $code"; exit 1 ;;
  esac
done
rm response.json
api GET /orders | jq -c '.[0]'

curl -s "$API_URL/private" -o /dev/null -w '%{http_code} %{size_download}\n'
curl -s -o /dev/null -w '%{http_code} %{redirect_url}\n' "$API_URL/old"
curl -sL "$API_URL/old" | jq -r .name
curl -s -I "$API_URL/health" | tr -d '\r' | grep -i '^content-type\|^HTTP'
curl -s -G --data-urlencode 'q=a&ü' -d n=1 "$API_URL/echo" | jq -r '.query | ascii_upcase'
echo '{"from": "stdin"}' | curl -s -H 'Content-Type: application/json' --data-binary @- "$API_URL/echo" | jq -c '[.method, .type, .body]'
curl -s -d 'a=1' -d 'b=2' -H 'X-Agent: test' "$API_URL/echo" | jq -c '[.method, .type, .body, .agent]'
curl -fsS -o page.html "$API_URL/page.html" && grep -o '<h1>.*</h1>' page.html
curl -s --max-time 10 -D headers.txt "$API_URL/data.csv" | tail -n 1
head -n 1 headers.txt | tr -d '\r'; rm headers.txt

attempt=0
until curl -fs "$API_URL/broken" > /dev/null; do
  attempt=$((attempt + 1))
  ((attempt < 3)) || { echo "gave up after $attempt"; break; }
done
curl -s "http://127.0.0.1:1/" || echo "no connection"
curl -fsS "$API_URL/users/99"
