# Converts lines of access logs and plain logs to records. Writes JSON lines to dir/json, and the number of other lines to dir/ignored.

BEGIN {
  OFS = "\t"
  split("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec", names, " ")
  for (i = 1; i <= 12; i++) month[names[i]] = sprintf("%02d", i)
}

/^[ ]*\{/ {
  print > (dir "/json")
  next
}

# 192.0.2.7 - ada [10/Oct/2024:13:55:36 +0000] "GET /tea?x=1 HTTP/1.1" 200 2326 "-" "curl/8.0" 0.012
/^[^ ]+ [^ ]+ [^ ]+ \[[0-9]+\/[A-Z][a-z][a-z]\/[0-9:]+ [^]]*\] "/ {
  at = index($0, "[")
  stamp = substr($0, at + 1, 20)
  time = substr(stamp, 8, 4) "-" month[substr(stamp, 4, 3)] "-" substr(stamp, 1, 2) "T" substr(stamp, 13, 8)
  rest = substr($0, index($0, "] \"") + 3)
  request = substr(rest, 1, index(rest, "\" ") - 1)
  rest = substr(rest, length(request) + 3)
  split(rest, field, " ")
  status = field[1]
  if (status !~ /^[1-5][0-9][0-9]$/) { ignored++; next }
  if (split(request, part, " ") < 2) { part[1] = "?"; part[2] = request }
  path = part[2]
  sub(/\?.*/, "", path)
  duration = ""
  # The last field, if it is a number of seconds after the quoted fields.
  if (match(rest, /" [0-9]+\.[0-9]+$/)) duration = sprintf("%.0f", substr(rest, RSTART + 2) * 1000)
  print time, "", status, duration, part[1] " " path, ""
  next
}

# 2024-10-10 13:55:36,123 ERROR [pool-1] something
/^\[?[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][T ][0-9][0-9]:[0-9][0-9]:[0-9][0-9]/ {
  line = $0
  sub(/^\[/, "", line)
  time = substr(line, 1, 10) "T" substr(line, 12, 8)
  line = substr(line, 20)
  sub(/^[.,][0-9]+/, "", line)
  sub(/^(Z|[+-][0-9][0-9]:?[0-9][0-9])/, "", line)
  sub(/^\]/, "", line)
  level = ""
  if (match(line, /(TRACE|DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|CRITICAL|FATAL|PANIC)/)) {
    level = tolower(substr(line, RSTART, RLENGTH))
    line = substr(line, RSTART + RLENGTH)
  }
  gsub(/\t/, " ", line)
  sub(/^[]: -]+/, "", line)
  print time, level, "", "", "", line
  next
}

{ ignored++ }

END { print ignored + 0 > (dir "/ignored") }
