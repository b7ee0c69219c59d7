"""For imports that cannot work here, explains what the module is and what to use instead."""

import sys

from .stdlib import unseen

NATIVE = "is native code, which this Python cannot load"
WHY = {
    "_ctypes": "ctypes calls native libraries, which a sandbox does not have",
    "_curses": "curses needs a terminal: print plain text",
    "readline": "readline needs a terminal: use input()",
    "tkinter": "tkinter needs a screen: write an HTML or SVG file",
    "turtle": "turtle needs a screen: write an SVG file",
    "fcntl": "fcntl has no counterpart in WASI: files of a sandbox are not shared and need no locks",
    "termios": "termios needs a terminal: read lines from stdin",
    "numpy": f"numpy {NATIVE}: use lists, math, statistics and itertools",
    "pandas": f"pandas {NATIVE}: use csv, sqlite3 and statistics",
    "scipy": f"scipy {NATIVE}: use math and statistics",
    "matplotlib": f"matplotlib {NATIVE}: write an SVG file",
    "PIL": f"PIL (Pillow) {NATIVE}",
    "cv2": f"cv2 (OpenCV) {NATIVE}",
    "lxml": f"lxml {NATIVE}: use xml.etree.ElementTree or html.parser",
    "torch": f"torch {NATIVE}",
    "tensorflow": f"tensorflow {NATIVE}",
    "sklearn": f"sklearn (scikit-learn) {NATIVE}",
    "cryptography": f"cryptography {NATIVE}: use hashlib, hmac and secrets",
    "psycopg2": f"psycopg2 {NATIVE}",
    "orjson": f"orjson {NATIVE}: use json",
}


class Missing:
    """The last finder, asked only if no other one knows the name."""

    @staticmethod
    @unseen
    def find_spec(name, path=None, target=None):
        why = WHY.get(name)
        # `importlib.util.find_spec` checks whether a module exists, and must get a negative answer.
        if why is not None and sys._getframe(2).f_code.co_name == "_find_and_load_unlocked":
            raise ModuleNotFoundError(f"No module named {name!r} ({why})", name=name)
        return None


def install():
    sys.meta_path.append(Missing)
