# needs: tzdata
import datetime
import zoneinfo

when = datetime.datetime(2024, 7, 1, 12, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))
print(when.isoformat(), when.astimezone(zoneinfo.ZoneInfo("America/New_York")).isoformat(), when.tzname())
