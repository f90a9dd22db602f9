"""Which Pythons a wheel may be installed on: by its tags and Requires-Python together."""

from __future__ import annotations

import re
from functools import lru_cache

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from binary_checks.model.packages import Distribution, PythonClaim

_MINORS = range(40)  # of Python 3, as far as anybody plans
_MICROS = (0, 1, 99, *range(2, 40))  # most specifiers tell by the first three
LONGEST_SPECIFIER = 200  # characters; of a stranger's thousand clauses each would be asked


def read_specifier(text: str) -> SpecifierSet | None:
    """Read a Requires-Python; None where it is not valid."""
    try:
        return SpecifierSet(text)
    except (InvalidSpecifier, ValueError):  # ValueError: a number of thousands of digits
        return None


def allows_any(wanted: str, claim: PythonClaim) -> bool:
    """Whether a Requires-Python allows a Python of that claim; one of unknown make counts."""
    major = re.match(r"[a-z]+(\d)", claim.name)
    return major is None or any(_allows(wanted, int(major[1]), minor) for minor in minors_of(claim))


def minors_of(claim: PythonClaim) -> tuple[int, ...]:
    """The minor versions that a claim speaks of: its own, that and all later ones, or all."""
    if not claim.version:
        return tuple(_MINORS)
    exact = claim.implementation and not claim.abi.startswith("abi3")
    return (claim.version[1],) if exact else tuple(_MINORS[claim.version[1] :])


def find_promised(package: Distribution) -> frozenset[int]:
    """The minor versions of Python 3 that an installer may install it on; none if unknown."""
    wanted = package.header("Requires-Python")
    if len(wanted) > LONGEST_SPECIFIER:
        return frozenset()
    tagged = {
        minor
        for claim in package.claims.pythons
        if not re.match(r"[a-z]+2", claim.name)
        for minor in minors_of(claim)
    }
    return frozenset(minor for minor in tagged if _allows(wanted, 3, minor))


def states_lowest(package: Distribution) -> bool:
    """Whether it says from which Python on it runs: ``py3-none`` alone says nothing of it."""
    versioned = all(claim.version for claim in package.claims.pythons)
    return bool(package.header("Requires-Python")) or (versioned and bool(package.claims.pythons))


@lru_cache(maxsize=1024)
def _allows(wanted: str, major: int, minor: int) -> bool:
    allowed = read_specifier(wanted)
    return allowed is None or any(
        allowed.contains(f"{major}.{minor}.{micro}", prereleases=True) for micro in _MICROS
    )
