"""Differences between two builds: one pure function each, which compares facts of both."""

from binary_checks.differences.comparison import GAP, compare, load_differences

MODULES = tuple(
    f"{__name__}.{name}"
    for name in ("linking", "lowest_versions", "promises", "protections", "shipped", "verdicts")
)
"""The modules that have differences."""

__all__ = ["GAP", "MODULES", "compare", "load_differences"]
