import csv, random, datetime, json, statistics
rows = list(csv.DictReader(open("/workspace/table.csv")))
random.shuffle(rows)
report = {"made": datetime.datetime.now().isoformat(), "names": [r["name"] for r in rows], "codes": list({r["code"] for r in rows}), "mean": statistics.fmean(float(r["amount"]) for r in rows)}
json.dump(report, open("/workspace/report.json", "w"), ensure_ascii=False, indent=1)
print(open("/workspace/report.json").read())
