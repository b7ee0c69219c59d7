import uuid
print(uuid.uuid1(), uuid.uuid4(), uuid.uuid5(uuid.NAMESPACE_DNS, "example.com"), uuid.getnode())
print([str(uuid.uuid4()) for _ in range(20)])
