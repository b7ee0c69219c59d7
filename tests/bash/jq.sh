#--- jq paths
echo '{"a":{"b":[1,2,{"c":"x"}]}}' > f; jq .a f; jq '.a.b[2].c' f; jq -r '.a.b[2].c' f; jq '.nope' f; jq '.a["b"][0]' f; jq '.a.b[-1]' f; jq -c . f
#--- jq iteration
echo '[{"n":"a","v":1},{"n":"b","v":2}]' | jq -r '.[].n'; echo '[{"n":"a","v":1},{"n":"b","v":2}]' | jq -c '.[] | {n}'; echo '[1,2,3]' | jq 'map(. * 2)' -c; echo '[1,2,3]' | jq 'length'; echo '{"a":1,"b":2}' | jq -c 'keys, [.[]]'
#--- jq select
echo '[{"n":"a","v":1},{"n":"b","v":5}]' | jq -r '.[] | select(.v > 2) | .n'; echo '["apple","bob"]' | jq -c 'map(select(test("^a")))'; echo '[1,null,2]' | jq -c 'map(select(. != null))'; echo '{"t":["x","y"]}' | jq '.t | index("y")'
#--- jq arguments
jq -n --arg name 'a "b"' --argjson n 5 '{name: $name, n: $n}' -c; jq -nr --arg x y '"\($x)!"'; echo '{"k":1}' | jq --arg k k '.[$k]'; jq -n '$ENV.HOME | type'; jq -nc '[$ARGS.positional[]]' --args a b
#--- jq building
jq -n '{a: 1, "b c": [1, "x", true, null]}'; jq -nc '[range(3)]'; jq -nc '{a: 1} + {b: 2} * {b: {c: 3}}'; echo '{"a":1}' | jq -c '.b = 2 | .a += 1 | del(.b)'; echo '[[1,2],[3]]' | jq -c 'add'
#--- jq strings
jq -nr '"a,b,c" | split(",") | join("-")'; jq -nr '"Hello" | ascii_downcase, ascii_upcase, length'; jq -nr '"a-b" | gsub("-"; "_")'; jq -nr '"x=1" | capture("(?<k>\\w)=(?<v>\\d)") | .k + .v'; jq -nr '"  t " | ltrimstr(" ")'; jq -n '"abc" | .[1:]'; jq -n '"a b" | @uri' ; jq -nr '"abc" | startswith("a"), endswith("b"), contains("bc")'
#--- jq formats
jq -nr '["a","b c",1] | @csv, @tsv, @sh'; jq -nr '"<a>" | @html'; jq -nr '"hi" | @base64, (@base64 | @base64d)'; jq -nr '{a:1} | @json, tostring, tojson'; jq -n '"[1]" | fromjson'
#--- jq groups
echo '[{"k":"a","v":1},{"k":"b","v":2},{"k":"a","v":3}]' > f; jq -c 'group_by(.k) | map({k: .[0].k, s: map(.v) | add})' f; jq -c 'sort_by(.v) | reverse | map(.v)' f; jq -c 'unique_by(.k) | length' f; jq -c 'max_by(.v), min_by(.v)' f; jq '[.[].v] | add / length' f
#--- jq entries
echo '{"a":1,"b":2}' | jq -r 'to_entries[] | "\(.key)=\(.value)"'; echo '{"a":1,"b":2}' | jq -c 'with_entries(.value += 1)'; echo '[{"key":"x","value":1}]' | jq -c from_entries; echo '{"a":{"b":1}}' | jq -c 'paths, [leaf_paths]'; echo '{"a":1}' | jq 'has("a"), has("z")'
#--- jq conditions
echo '{"v":5}' | jq 'if .v > 3 then "big" elif .v > 1 then "mid" else "small" end'; echo '{}' | jq '.x // "default"'; echo '[1,"a",null]' | jq -c 'map(type)'; echo '{"a":"1"}' | jq '.a | tonumber + 1'; jq -n '1, 2 | . as $x | $x * 10' ; jq -n 'try error("x") catch .'
#--- jq reductions
jq -n 'reduce range(5) as $i (0; . + $i)'; jq -nc '[limit(3; range(10))], first(range(5; 9)), [range(0; 10; 3)]'; jq -nc '[1,[2,[3]]] | flatten'; jq -nc '[foreach (1,2,3) as $x (0; . + $x)]'; jq -nc 'def f(x): x * 2; f(4)'; jq -n '[1,2,3] | any(. > 2), all(. > 2)'
#--- jq input modes
printf '1\n2\n' | jq -s . -c; printf 'a\nb\n' | jq -R .; printf 'a\nb\n' | jq -Rs 'split("\n") | length'; printf '{"a":1}\n{"a":2}\n' | jq -c '.a'; printf '1 2 3' | jq -n '[inputs] | add'; jq -n 'input' <<< '5'; printf 'x\ny\n' | jq -Rn '[inputs]' -c
#--- jq codes
echo '{"a":false}' | jq -e .a; echo $?; echo '{"a":1}' | jq -e .a; echo $?; echo 'not json' | jq . 2>/dev/null || echo failed; echo '{}' | jq '.[' 2>/dev/null; echo $?; echo '{}' | jq -e '.x' ; echo $?; echo '"a"' | jq '.b' 2>/dev/null; echo $?
#--- jq output
jq -n '[1,{"a":2}]' --indent 1; echo '{"b":1,"a":2}' | jq -S . ; jq -nj '"a", "b"'; echo; echo '{"a":[]}' | jq .; jq -n '{}'; jq --tab -n '[1]'; jq -r . <<< '"é\n✓"'; jq -a . <<< '"é"'
#--- jq files
echo '{"x":1}' > a.json; echo '{"y":2}' > b.json; jq -s '.[0] * .[1]' -c a.json b.json; jq -c --slurpfile b b.json '.b = $b[0].y' a.json; printf 'text\n' > t; jq -n --rawfile t t '$t'; jq -r 'input_filename' a.json; echo '.x' > prog.jq; jq -f prog.jq a.json
#--- jq numbers
jq -n '10 % 3, 100000000000, -0.5, 7 / 2'; jq -n '(2.7|floor), (2.2|ceil), (2.5|round), (16|sqrt), pow(2;3)'; jq -nc '[3,1,2] | sort, min, max, add'
#--- jq dates
jq -n '0 | todate'; jq -n '"2024-01-15T10:00:00Z" | fromdate'; jq -n '1700000000 | strftime("%Y-%m-%d")'; jq -n 'now | type'
#--- jq updates
echo '{"a":[1,2,3]}' | jq -c '.a[1] = 9 | .a |= map(. + 1)'; echo '{"a":{"b":1}}' | jq -c '.a.b |= . + 1 | .a.c //= 5'; echo '{"a":1,"b":2}' | jq -c 'map_values(. * 10)'; echo '{"a":null}' | jq -c '.. | numbers'; echo '[3,1]' | jq -c '.[0] as [$x] | $x' 2>/dev/null; echo $?
#--- jq deletes several
echo '[1,2,3,4]' | jq -c 'del(.[1,2])'
#--- jq in scripts
json='{"items":[{"id":1,"name":"one two"},{"id":2,"name":"x"}]}'; echo "$json" | jq -r '.items[] | "\(.id)\t\(.name)"' | while IFS=$'\t' read -r id name; do echo "<$id> <$name>"; done; n=$(jq '.items | length' <<< "$json"); echo "n=$n"; for id in $(jq -r '.items[].id' <<< "$json"); do echo "id $id"; done
#--- jq alternatives and optional
echo '{"a":[{"b":1},{}]}' | jq -c '[.a[].b?]'; echo '"s"' | jq '.a?' ; echo '{"a":1}' | jq -r '.b // empty'; echo '[]' | jq '.[0] // "none"'; echo '{"a":"x"}' | jq -r '"\(.a)-\(.b // "n/a")"'; echo '[{"a":1},{"a":null}]' | jq -c '[.[] | .a // 0]'
#--- jq walks
echo '{"a":[{"b":"x"}]}' | jq -c 'walk(if type == "string" then ascii_upcase else . end)'; echo '{"a":[{"id":1},{"id":2}]}' | jq '[.. | .id? // empty] | length'; echo '[1,2,3]' | jq -c '.[1:], .[:-1]'; echo '{"a":1}' | jq -c 'tojson | fromjson'; jq -nc '[1,2] | combinations(2)' | head -2; jq -nc '"a.b.c" | split(".") | {(.[0]): .[1:]}'
#--- jq sql-like
echo '[{"u":"a","n":3},{"u":"b","n":1}]' | jq -r '(["user","n"] | @tsv), (sort_by(.n)[] | [.u, .n] | @tsv)'; echo '[{"a":1,"b":2}]' | jq -r '.[] | [.a,.b] | map(tostring) | join(",")'; echo '{"x":[1,2]}' | jq '.x | @text'; jq -nc '[1,1,2] | unique, (group_by(.) | map(length))'; jq -nc 'input_line_number? // 0' ; jq -nc '[splits("a";"b")]?' ; echo done
#--- a text that begins like a number
jq -n -c '[("2024-10-10T13", "1 2", "a", "", " 12 ", "-5") | tonumber? // "no"], ("1 2" | try fromjson catch .), ("[1,2]" | fromjson)'
