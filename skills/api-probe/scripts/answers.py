"""Compares responses with the expected ones."""

import fnmatch

from jsonschema.validators import validator_for

from endpoints import CLASSES

# The maximum number of schema errors to report per document.
MOST = 3


def problems(endpoint, response, latency):
    expect = endpoint.expect
    if expect.status is None and not 200 <= response.status_code < 300:
        yield f"status {response.status_code} {response.reason}, expected 200 to 299"
    elif expect.status is not None and response.status_code not in expect.status:
        yield f"status {response.status_code} {response.reason}, expected {' or '.join(map(str, expect.status))}"
    if CLASSES.index(latency) > CLASSES.index(expect.latency):
        yield f"latency {latency}, expected {expect.latency}"
    for name, pattern in expect.headers.items():
        value = response.headers.get(name)
        if value is None:
            yield f"header {name} is missing, expected {pattern}"
        elif not fnmatch.fnmatchcase(value.lower(), str(pattern).lower()):
            yield f"header {name} is {value!r}, expected {pattern}"
    if expect.schema is not None:
        yield from shape(expect.schema, response)


def shape(schema, response):
    try:
        document = response.json()
    except ValueError:
        yield f"the answer is no JSON: {response.text[:40]!r}"
        return
    validator = validator_for(schema)(schema)
    faults = sorted(validator.iter_errors(document), key=lambda fault: (fault.json_path, fault.message))
    for fault in faults[:MOST]:
        yield f"{fault.json_path}: {fault.message}"
    if len(faults) > MOST:
        yield f"{len(faults) - MOST} more schema errors"
