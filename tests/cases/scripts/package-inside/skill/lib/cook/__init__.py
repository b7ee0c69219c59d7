"""Recipes."""
from .parsing import Recipe, parse

__all__ = ["Recipe", "parse"]
__version__ = "0.3"
