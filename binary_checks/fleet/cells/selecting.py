"""Which cells meet globs on the values of their axes, and which are in a shard."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from binary_checks.errors import ProfileError
from binary_checks.fleet.cell import Cell
from binary_checks.profile.known import read_condition

_SHARD = re.compile(r"([1-9]\d{0,5})/([1-9]\d{0,5})")


def select(cells: Iterable[Cell], where: str) -> tuple[Cell, ...]:
    """Those that meet a condition as ``when`` has it, in order; all for "". Raises ProfileError."""
    if not where:
        return tuple(cells)
    condition = read_condition(where, "--where")
    return tuple(filter(condition.meets, cells))


def shard(cells: Sequence[Cell], part: str) -> tuple[Cell, ...]:
    """The i-th of n parts, for ``i/n``. Raises ProfileError.

    Each cell is in exactly one of them, and no part has two cells more than another. Neighbours,
    which are alike and take alike long, go to different parts.
    """
    found = _SHARD.fullmatch(part)
    if found is None or int(found[1]) > int(found[2]):
        raise ProfileError(f"--shard: {part}: not I/N, as 1/4 to 4/4 are")
    return tuple(cells[int(found[1]) - 1 :: int(found[2])])
