# run: -
# argv: x y
# stdin: "import sys\nprint(sys.argv, __name__)\nraise SystemExit(4)\n"
