"""Which cells meet globs on the values of their axes, and which are in a shard."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from binary_checks.errors import ProfileError
from binary_checks.fleet.cell import AXES, Cell
from binary_checks.profile.toml_values import reject_unknown

_NAMES = dict.fromkeys((*AXES, "id"), str)
_SHARD = re.compile(r"([1-9]\d{0,5})/([1-9]\d{0,5})")


@dataclass(frozen=True, kw_only=True, slots=True)
class CellCondition:
    """Globs by axis: what satisfies all of them is meant."""

    written: str  # "variant=cu* python=3.13*"
    globs: tuple[tuple[str, str], ...]

    def meets(self, cell: Cell) -> bool:
        """Whether it is one of those that are meant."""
        return all(fnmatchcase(getattr(cell, axis), glob) for axis, glob in self.globs)


def read_condition(text: str, where: str) -> CellCondition:
    """The parts of ``variant=cu* python=3.13*``: a space means and. Raises ProfileError."""
    globs = []
    for word in text.split():
        axis, found, glob = word.partition("=")
        if not found or not glob:
            raise ProfileError(f"{where}: {word}: not AXIS=GLOB, as variant=cu* is")
        reject_unknown([axis], _NAMES, where, "axis")
        globs.append((axis, glob))
    if not globs:
        raise ProfileError(f"{where}: it names no axis, as variant=cu* does")
    return CellCondition(written=" ".join(text.split()), globs=tuple(globs))


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
