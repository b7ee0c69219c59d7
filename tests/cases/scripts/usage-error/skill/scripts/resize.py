#!/usr/bin/env python3
"""Plans how pictures are resized. Prints what it would do, and ends with 2 where it is told nonsense."""
import argparse
import atexit
import sys

MODES = ("fit", "fill", "crop")


class Parser(argparse.ArgumentParser):
    """One that reports on stdout, for agents that read nothing else."""

    def error(self, message):
        print(f"❌ {self.prog}: {message.split(' (choose')[0]}")
        super().error(message)


def positive(text):
    value = int(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{value} is not positive")
    return value


def attempt(parser, argv):
    try:
        print(vars(parser.parse_args(argv)))
    except SystemExit as e:
        print(argv, "→", e.code)


def main():
    parser = Parser(prog="resize", add_help=False)
    parser.add_argument("files", nargs="*")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--width", type=positive)
    size.add_argument("--scale", type=float)
    parser.add_argument("--mode", choices=MODES, default="fit")
    parser.add_argument("-q", "--quality", type=int, default=85, metavar="PERCENT")
    parser.add_argument("--strip", action=argparse.BooleanOptionalAction, default=True)
    atexit.register(print, "bye")
    attempt(parser, ["a.png", "b.png", "--scale=.5", "--no-strip", "-q90"])
    attempt(parser, ["--width", "10", "--scale", "2"])
    attempt(parser, ["--mode", "stretch"])
    attempt(parser, ["--wid", "7", "--", "--odd-name.png"])
    attempt(parser, ["--unknown"])
    print(parser.parse_known_args(["x", "--unknown", "1"]))
    parser.parse_args()


if __name__ == "__main__":
    main()
    sys.exit("not reached")
