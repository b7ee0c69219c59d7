# run: -m json.tool --sort-keys
# stdin: "{\"b\": 1, \"a\": [2, \"\u00e4\"]}"
