"""The exit codes of `binary-checks`, which users' scripts hold on to."""

from __future__ import annotations

EXIT_CODES = range(7)
FIT, PROBLEMS, INTERRUPTED, OUR_BUG, MISUSED, EMPTY, TRY_AGAIN = EXIT_CODES
"""Five are pytest's; a bug of ours is its internal error, and an empty run collected nothing.

Where no problem was found, but a network, a disk or a host broke, it is to be run again.
"""
