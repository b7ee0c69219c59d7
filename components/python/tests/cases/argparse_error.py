# stderr: yes
# argv: --count many
import argparse

parser = argparse.ArgumentParser(description="Counts.", prog="argparse_error.py")
parser.add_argument("--count", type=int, required=True)
parser.parse_args()
