"""Refuses what is too much to be read of one file: no fault of it, and not passed over either."""

from __future__ import annotations

from binary_checks.errors import Unavailable


def refuse_more(count: int, most: int, what: str) -> None:
    """Raise Unavailable where a file has more of something than is read."""
    if count > most:
        raise Unavailable(f"it has {count} {what}, no more than {most} are read")
