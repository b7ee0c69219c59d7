import logging, sys, time, email.utils
logging.basicConfig(stream=sys.stdout, format="%(asctime)s %(created)f %(process)d %(thread)d %(threadName)s %(relativeCreated)d %(message)s")
for n in range(3):
    logging.warning("message %d", n)
    time.sleep(1.5)
print(email.utils.make_msgid(), email.utils.formatdate())
