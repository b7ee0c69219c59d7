import datetime, time
print(datetime.datetime.now(), datetime.datetime.now(datetime.timezone.utc), datetime.date.today(), datetime.datetime.now().astimezone())
print(time.localtime(), time.gmtime(), time.ctime(), time.strftime("%c %Z %z"), time.tzname, time.timezone)
