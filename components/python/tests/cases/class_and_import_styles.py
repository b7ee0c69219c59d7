# run: -c 'import pkg.sub.deep as d, importlib; print(d.X, importlib.import_module("pkg").NAME, __name__)'
