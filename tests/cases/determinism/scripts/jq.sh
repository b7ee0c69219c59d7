jq -n 'now | floor'; jq -n 'now | todate'; jq -S . /workspace/doc.json; jq '.a | keys, to_entries' /workspace/doc.json; jq -n '[limit(3; range(10))] | @json'
