def cents(value):
    return f"{value:.2f}"
