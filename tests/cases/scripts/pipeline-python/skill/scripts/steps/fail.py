import sys


def main():
    print("before")
    if sys.argv[1] == "7":
        raise ValueError("seven is not allowed: " + "✗")


main()
