def of_the_script():
    return "not the standard library"
