"""Phrases that several checks' sentences are made of."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice

_LONGEST = 160
"""Characters of one name; mangled C++ names may have thousands."""


def name_first(names: Collection[str], most: int = 3, total: int | None = None) -> str:
    """The first names in the order given, and how many more there are: ``a, b, c and 4 more``.

    ``total`` is how many there are where not all are given.
    """
    total = len(names) if total is None else total
    shown = ", ".join(
        name if len(name) <= _LONGEST else f"{name[: _LONGEST - 3]}..."
        for name in islice(names, most)
    )
    return f"{shown} and {total - most} more" if total > most else shown
