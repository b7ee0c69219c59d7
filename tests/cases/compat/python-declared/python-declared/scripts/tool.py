#!/usr/bin/env -S uv run --script
# /// script
# requires-python = ">=3.12"
# dependencies = [
#     "rich>=10",
#     "click<1",
#     "polars",
# ]
# ///
import rich
import click
