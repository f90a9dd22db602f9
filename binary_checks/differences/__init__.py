"""The differences of two builds: one pure function each, over the facts of both."""

from binary_checks.differences.comparison import compare

__all__ = ["compare"]
