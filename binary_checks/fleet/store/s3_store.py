"""A store in a bucket."""

from __future__ import annotations

from binary_checks.errors import ProfileError
from binary_checks.fleet.store import Store


def connect(url: str) -> Store:
    """Not there yet."""
    raise ProfileError(f"--store {url}: buckets are not supported yet")
