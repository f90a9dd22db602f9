"""The classifiers of packages that PyPI knows."""

from __future__ import annotations

import functools

from binary_checks.model import KnownClassifiers
from binary_checks.systems.libraries import read_committed


@functools.cache
def classifiers() -> KnownClassifiers:
    """Return a copy of PyPI's list."""
    table = read_committed("classifiers.json")
    return KnownClassifiers(
        source=table["source"],
        accepted=frozenset(table["accepted"]),
        deprecated={name: tuple(others) for name, others in table["deprecated"].items()},
    )
