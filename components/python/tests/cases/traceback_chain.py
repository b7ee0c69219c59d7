# stderr: yes
# sandbox: CPython 3.11 underlines less than 3.14
def parse(text):
    try:
        return int(text)
    except ValueError as error:
        raise RuntimeError("cannot parse") from error


parse("x")
