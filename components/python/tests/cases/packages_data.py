import datetime
import io
import os
import sys
import zoneinfo

import dateutil.parser
import dateutil.relativedelta
import dateutil.rrule
import dateutil.tz
import dotenv
import jsonschema
import pytz
import tabulate
import toml
import xmltodict
import yaml

text = "a: [1, 2.5, null, yes]\nb: &x {c: 'é'}\nd: *x\nwhen: 2024-02-29\n"
value = yaml.safe_load(text)
print(value)
print(yaml.safe_dump(value, allow_unicode=True, sort_keys=True), end="")
print(list(yaml.safe_load_all("--- 1\n--- {a: b}\n")))
try:
    yaml.safe_load("a: [1\nb: 2")
except yaml.YAMLError as error:
    print(error)

print(toml.loads("[a]\nb = 1\nc = [1, 2]\n"), toml.dumps({"x": {"y": "z"}}))
print(xmltodict.parse("<a><b c='1'>x</b><b/></a>"))
print(xmltodict.unparse({"a": {"@k": "v", "b": ["1", "2"]}}, pretty=True))
print(tabulate.tabulate([["x", 1], ["yy", 22.5]], headers=["name", "n"], tablefmt="github"))

with open(".env.sample", "w") as file:
    file.write("A=1\nexport B='two words'\nC=${A}x\n# no\n")
print(dotenv.dotenv_values(".env.sample"))
dotenv.load_dotenv(".env.sample")
print(os.environ["B"], os.environ["C"])

print(dateutil.parser.parse("3 March 2021 14:05 +0200").isoformat())
print(datetime.date(2024, 1, 31) + dateutil.relativedelta.relativedelta(months=1))
print([d.day for d in dateutil.rrule.rrule(dateutil.rrule.WEEKLY, count=3, dtstart=datetime.datetime(2024, 5, 1))])
noon = datetime.datetime(2024, 7, 1, 12, tzinfo=datetime.timezone.utc)
print(noon.astimezone(zoneinfo.ZoneInfo("America/New_York")), noon.astimezone(pytz.timezone("Asia/Tokyo")))
print(noon.astimezone(dateutil.tz.gettz("Europe/Berlin")), len(zoneinfo.available_timezones()) > 400)

schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}, "e": {"enum": ["a", "b"]}}, "required": ["n"]}
jsonschema.validate({"n": 3, "e": "a"}, schema)
for wrong in ({}, {"n": 0}, {"n": 1, "e": "c"}, []):
    print(*(error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(wrong)))
