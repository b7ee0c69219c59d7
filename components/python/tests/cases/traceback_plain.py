# stderr: yes
def inner(value):
    raise ValueError(f"bad value: {value}")


def outer():
    inner(3)


print("before")
outer()
