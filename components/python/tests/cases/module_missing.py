# run: -m no_such_module
