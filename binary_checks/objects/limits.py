"""Refuses what is too much to be read of one file: no fault of it, and not passed over either."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from binary_checks.errors import TooLarge

_FACTOR = ContextVar("limit_factor", default=1)


@contextmanager
def raised_by(factor: int) -> Iterator[None]:
    """Read so many times as much as usual, in this thread and until it is left."""
    token = _FACTOR.set(factor)
    try:
        yield
    finally:
        _FACTOR.reset(token)


def raised(most: int) -> int:
    """How much is read where it is ``most`` as a rule. What reads later asks beforehand."""
    return int(most * _FACTOR.get())


def refuse_more(count: int, most: int, what: str) -> None:
    """Raise TooLarge where a file has more of something than is read."""
    if count > (most := raised(most)):
        raise TooLarge(f"it has {count} {what}; at most {most} are read")
