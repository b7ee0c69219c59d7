# differs: yes
import os
import random
import secrets
import tempfile
import time
import uuid

print(random.random(), random.randint(0, 1 << 62))
print(random.sample(range(1000), 20))
print(uuid.uuid4())
print(uuid.uuid1())
print(secrets.token_hex())
print(os.urandom(16).hex())
print(tempfile.mktemp())
print(random.SystemRandom().random())
print(time.time_ns())
