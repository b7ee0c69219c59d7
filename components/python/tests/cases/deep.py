# sandbox: before 3.14, which guards by the stack that is left, native CPython crashes here
import ast
import collections
import copy


def nested(wrap):
    value = None
    for _ in range(200_000):
        value = wrap(value)
    return value


def tell(name, work):
    try:
        work()
    except (RecursionError, MemoryError) as error:
        print(name, type(error).__name__)


tell("list", lambda: repr(nested(lambda value: [value])))
tell("tuple", lambda: repr(nested(lambda value: (value,))))
tell("dict", lambda: repr(nested(lambda value: {1: value})))
tell("deque", lambda: repr(nested(lambda value: collections.deque([value]))))
tell("UserDict", lambda: repr(nested(lambda value: collections.UserDict({1: value}))))
tell("deepcopy", lambda: copy.deepcopy(nested(lambda value: [value])))
tell("compile", lambda: compile("x" + ".a" * 200_000, "x", "eval"))
tell("compile brackets", lambda: compile("(" * 199 + "1" + ")" * 199, "x", "eval"))
tell("compile signs", lambda: compile("-" * 200_000 + "1", "x", "eval"))
tell("literal_eval", lambda: ast.literal_eval("-" * 200_000 + "1"))
