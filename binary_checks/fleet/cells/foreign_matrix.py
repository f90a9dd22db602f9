"""What a matrix that a project keeps elsewhere says, before it is cells.toml."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from binary_checks.errors import ProfileError
from binary_checks.fleet.cell import AXES, Cell
from binary_checks.fleet.cells.matrix import CellChannel

_LARGEST = 16 << 20  # bytes of a document
_SHOWN = 3  # examples of what is left out


@dataclass(frozen=True, kw_only=True, slots=True)
class ForeignMatrix:
    """Cells, whose ids their file will give them, and what is no cell and why."""

    cells: tuple[Cell, ...]
    channels: Mapping[str, CellChannel] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # a line each


def read_text(file: str, named: str) -> str:
    """The text of a file, or of standard input for ``-``. Raises ProfileError."""
    try:
        if file == "-":
            content = sys.stdin.buffer.read(_LARGEST + 1)
        else:
            with Path(file).open("rb") as opened:
                content = opened.read(_LARGEST + 1)
    except OSError as error:
        raise ProfileError(f"{named}: {error.strerror}") from None
    except ValueError:
        raise ProfileError(f"{named}: not the name of a file") from None
    if len(content) > _LARGEST:
        raise ProfileError(f"{named}: more than {_LARGEST:,} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ProfileError(f"{named}: byte {error.start} is not UTF-8") from None


def merge_cells(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """Each once, in order; with a GPU stage where any of those that are one has it."""
    found: dict[tuple[str, ...], Cell] = {}
    for cell in cells:
        key = tuple(getattr(cell, axis) for axis in AXES)
        found[key] = replace(cell, gpu=cell.gpu or (key in found and found[key].gpu))
    return tuple(found.values())


def describe_left_out(left: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """A line a reason: how many it is about, and which are the first of them."""
    return tuple(
        f"{len(names):,} left out ({', '.join(names[:_SHOWN])}{', …' * (len(names) > _SHOWN)}): "
        f"{reason}"
        for reason, names in left.items()
    )
