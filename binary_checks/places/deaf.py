"""The option with which a Python process hears nothing of the folder that it starts in."""

from __future__ import annotations

import sys

DEAF = "-P" if sys.version_info >= (3, 11) else "-I"
"""For ``-m`` and ``-c``, which put the current folder first on the module search path.

Python 3.10 knows only the stricter one, which leaves out PYTHONPATH and the user's site-packages.
"""
