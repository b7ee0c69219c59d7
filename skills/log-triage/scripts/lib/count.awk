# Counts records, and writes the files totals, errors, failing, minutes and slow to the folder dir.

function folded(text) {
  gsub(/[0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F]-[0-9a-fA-F]+-[0-9a-fA-F]+-[0-9a-fA-F]+-[0-9a-fA-F]+/, "UUID", text)
  gsub(/[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+/, "IP", text)
  gsub(/"[^"]*"/, "'...'", text)
  gsub(/'[^']*'/, "'...'", text)
  gsub(/0x[0-9a-fA-F]+/, "HEX", text)
  gsub(/[0-9][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]+/, "HEX", text)
  gsub(/[0-9]+/, "N", text)
  gsub(/HEX[0-9a-f]*/, "HEX", text)
  return text
}

{
  time = $1; level = $2; status = $3 + 0; duration = $4; request = $5; message = $6
  minute = substr(time, 1, 16)
  if (first == "" || time < first) first = time
  if (time > last) last = time
  lines[minute]++
  if (status >= 100 && status < 600) class[int(status / 100)]++

  failed = status >= 500 || level ~ /^(error|critical|fatal|panic|emerg|alert|crit)/
  warned = !failed && (level ~ /^warn/ || status >= 400)
  warnings += warned
  if (failed) {
    errors++
    bad[minute]++
    what = message != "" ? folded(message) : "status " status " of " folded(request)
    seen[what]++
    if (!(what in earliest) || time < earliest[what]) earliest[what] = time
    if (!(what in latest) || time > latest[what]) latest[what] = time
    if (!(what in example)) example[what] = message != "" ? message : request
  }
  if (request != "") {
    where = folded(request)
    asked[where]++
    if (status >= 400) refused[where]++
    if (failed) broke[where]++
  }
  if (duration != "") {
    timed++
    if (duration + 0 >= slow) printf "%s\t%s\t%s\t%s\n", duration, time, $3, request > (dir "/slow")
  }
}

END {
  OFS = "\t"
  mean = errors / length_of(lines)
  print "records", NR > (dir "/totals")
  print "errors", errors + 0 > (dir "/totals")
  print "warnings", warnings + 0 > (dir "/totals")
  print "timed", timed + 0 > (dir "/totals")
  print "first", first > (dir "/totals")
  print "last", last > (dir "/totals")
  for (c = 1; c <= 5; c++) if (class[c]) print c "xx", class[c] > (dir "/classes")
  for (what in seen) print seen[what], what, earliest[what], latest[what], example[what] > (dir "/errors")
  for (where in broke) print broke[where], asked[where], where > (dir "/failing")
  for (where in refused) if (!(where in broke)) print refused[where], asked[where], where > (dir "/refused")
  for (minute in lines) {
    burst = bad[minute] >= 3 && bad[minute] > 3 * mean
    print minute, lines[minute], bad[minute] + 0, burst > (dir "/minutes")
  }
}

function length_of(array,   key, n) {
  for (key in array) n++
  return n
}
