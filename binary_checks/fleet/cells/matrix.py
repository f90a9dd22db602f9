"""The matrix as its file says it: cells, sources where they are published, exceptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from binary_checks.fleet.cell import Cell


@dataclass(frozen=True, kw_only=True, slots=True)
class CellSource:
    """Where packages are published; of index, folder, url and conda at most one is set.

    With none of them it is what pip is set to. In each, an axis in braces stands for its value.
    """

    name: str = ""  # "" where a cell names none
    index: str = ""  # the URL of a package index: https://example.org/nightly/{variant}
    folder: str = ""  # relative to the matrix's file
    url: str = ""  # of the file itself
    conda: str = ""  # a channel's name or URL
    freshness: int | None = None  # days; what is older is stale
    prereleases: bool = False  # whether they count where there are releases too
    gate: str = ""  # a policy, relative to the matrix's file: `artifact promote` asks it


PIPS_INDEX = CellSource()
"""What a cell without a source is looked up in."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """An exception to the products: what it matches is no cell, until it expires."""

    when: str
    reason: str
    expires: str = ""  # the last day on which it holds: 2027-01-31
    cells: int = 0  # that it leaves out
    expired: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Matrix:
    """All that one file says, in the order in which it says it."""

    source: str  # how the user named the file
    folder: Path  # in which it lies: paths in it are relative to that
    sha256: str  # of the file
    cells: tuple[Cell, ...]
    product: tuple[Cell, ...]  # all of the blocks, with those that are left out
    axes: tuple[str, ...]  # that the file uses, in the order of AXES
    sources: Mapping[str, CellSource] = field(default_factory=dict)
    left_out: tuple[LeftOut, ...] = ()
    known: str = ""  # a file of known problems, for all cells
    causes: str = ""  # a file of the project's own causes
    warnings: tuple[str, ...] = ()  # a line each
    content: bytes = field(default=b"", repr=False)  # of the file

    def source_of(self, cell: Cell) -> CellSource:
        """Where a cell is published."""
        return self.sources.get(cell.source, PIPS_INDEX)
