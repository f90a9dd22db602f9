"""The exit codes of `binary-checks`, on which users' scripts rely."""

from __future__ import annotations

EXIT_CODES = range(7)
FIT, PROBLEMS, INTERRUPTED, OUR_BUG, MISUSED, EMPTY, TRY_AGAIN = EXIT_CODES
"""The first six are pytest's: a bug of ours is its internal error, EMPTY means nothing collected.

TRY_AGAIN: no problem was found, but the network, the disk or the host failed.
"""
