import json

def load(path):
    return json.load(open(path))
