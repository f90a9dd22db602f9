"""Differences between two builds: one pure function each, which compares facts of both."""

from binary_checks.differences.comparison import compare, load_differences

MODULES = tuple(
    f"{__name__}.{name}"
    for name in (
        "built_from",
        "device_targets",
        "exported",
        "lowest_versions",
        "needs",
        "promises",
        "requirements_declared",
        "safety",
        "shipped",
        "sizes",
        "verdicts",
    )
)
"""The modules that have differences."""

__all__ = ["MODULES", "compare", "load_differences"]
