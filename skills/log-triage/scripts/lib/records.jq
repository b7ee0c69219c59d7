# Converts a JSON line to a record, or to the word "ignored" if it is not an object with a time.

def first_of(names): . as $all | first((names[] | $all[.]? | select(. != null)), null);

# The time: seconds or milliseconds since 1970, or the first 19 characters of a text.
def moment:
  if type == "number" then (if . > 100000000000 then . / 1000 else . end | floor | todate | .[0:19])
  elif type == "string" then (.[0:19] | sub(" "; "T"))
  else null end;

def flat: if . == null then "" elif type == "string" then gsub("[\t\n]"; " ") else tojson end;

def milliseconds:
  (first_of(["duration_ms", "latency_ms", "elapsed_ms"]) // (first_of(["duration", "request_time"]) | if type == "number" then . * 1000 else null end))
  | if type == "number" then (. + 0.5 | floor | tostring) else "" end;

(try fromjson catch null) as $line
| if ($line | type) != "object" then "ignored"
  else $line
    | (first_of(["time", "ts", "timestamp", "@timestamp"]) | moment) as $time
    | if $time == null or ($time | test("^[0-9]{4}-[0-9]{2}-[0-9]{2}T") | not) then "ignored"
      else [
        $time,
        (first_of(["level", "severity", "lvl"]) | flat | ascii_downcase),
        (first_of(["status", "status_code", "code"]) | flat),
        milliseconds,
        ([first_of(["method"]), (first_of(["path", "url", "uri"]) | if . == null then null else tostring | sub("\\?.*"; "") end)] | map(select(. != null)) | join(" ")),
        (first_of(["msg", "message", "error"]) | flat)
      ] | join("\t")
      end
  end
