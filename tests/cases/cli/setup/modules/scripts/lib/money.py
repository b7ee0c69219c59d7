from .rounding import cents


def total(values):
    return cents(sum(values))
