#!/usr/bin/env python3
"""Reports on a file.

import numpy as np  # no import: this is the docstring
"""
from __future__ import annotations

import argparse, json
import sys, os.path as osp
from collections import (
    Counter,  # counts
    defaultdict,
)
from typing import TYPE_CHECKING

import yaml
from dateutil import parser
from helpers import load
from lib.deep import walk

if TYPE_CHECKING:
    import pandas

SQL = "import torch"  # import torch


def main():
    print(load(sys.argv[1]), walk, Counter, defaultdict, yaml, parser)


if __name__ == "__main__":
    main()
