"""Versions that are numbers between dots, as those of glibc, CUDA and drivers are."""

from __future__ import annotations

import functools
from itertools import takewhile

_MOST_DIGITS = 9  # no version has more in a part; texts of packages may


@functools.lru_cache(maxsize=4096)
def read_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with: (2, 14) for 2.14, () for PRIVATE.

    So 2.14 comes after 2.2.5, and 1.19.0rc1 is 1.19.
    """
    return tuple(map(int, takewhile(_is_number, version.split("."))))


def _is_number(part: str) -> bool:
    return part.isascii() and part.isdecimal() and len(part) <= _MOST_DIGITS
