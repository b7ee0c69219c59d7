import pickle, json, hashlib, marshal
value = {"set": {"a", "b", "c"}, "f": frozenset("xyz"), "n": [1, 2.5, None]}
print(pickle.dumps(value).hex(), json.dumps(sorted(value["set"])), hashlib.sha256(marshal.dumps(compile("x = {1, 'a'}", "f", "exec"))).hexdigest())
