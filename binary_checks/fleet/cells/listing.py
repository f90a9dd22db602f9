"""Lists of cells: as a table for people, and as JSON for `binary-checks cells --json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from binary_checks.documents.json_schema import describe_document
from binary_checks.documents.json_values import dump, encode_fields
from binary_checks.fleet.cells.choosing import NIGHTLY, OneOff
from binary_checks.fleet.cells.matrix import LeftOut, Matrix
from binary_checks.fleet.night import Cell

# A project's cells as a table: common values, and a row for cells that differ in one axis.

GPU = "+"
"""Suffix of a value whose cell has a GPU stage."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CellTable:
    """The cells of one project, for terminals and pages."""

    same: Mapping[str, str]  # axis -> value that all cells have
    axes: tuple[str, ...]  # axes that differ, which are the columns; empty for a single cell
    rows: Mapping[
        tuple[str, ...], tuple[str, ...]
    ]  # values of all axes but the last -> values of the last


def tabulate_cells(cells: Sequence[Cell], used: Sequence[str]) -> CellTable:
    """Return the table of one project's cells for the axes that its matrix uses."""
    values = [name_values(cell, used) for cell in cells]
    axes = [axis for axis in values[0] if len({row[axis] for row in values}) > 1]
    if axes:
        last = "python" if "python" in axes else axes[-1]
        axes = [*(axis for axis in axes if axis != last), last]
    rows: dict[tuple[str, ...], list[str]] = {}
    for row, cell in zip(values, cells, strict=True) if axes else ():
        key = tuple(row[axis] for axis in axes[:-1])
        rows.setdefault(key, []).append(row[axes[-1]] + GPU * cell.gpu)
    return CellTable(
        same={
            axis: value for axis, value in values[0].items() if value != "-" and axis not in axes
        },
        axes=tuple(axes),
        rows={key: tuple(found) for key, found in rows.items()},
    )


def name_values(cell: Cell, axes: Sequence[str]) -> dict[str, str]:
    """Return axis -> value without the project; system and architecture are joined."""
    both = "-".join(filter(None, (cell.system, cell.architecture)))
    values = {axis: getattr(cell, axis) or "-" for axis in axes if axis != "project"}
    values.pop("architecture", None)
    return {**values, "system": both} if both else values


# The output of `binary-checks cells --json`.

CELLS_SCHEMA = "binary-checks/cells/1"


@dataclass(frozen=True, kw_only=True, slots=True)
class CellsDocument:
    """The chosen cells of a matrix, with information about the whole matrix."""

    source: str  # the file, as the user named it
    sha256: str  # of the file
    axes: tuple[str, ...]  # axes that the file uses, in the order in which they make ids
    cells: tuple[Cell, ...]
    tier: str = NIGHTLY
    only: tuple[str, ...] = ()  # conditions for this run only
    also: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    warnings: tuple[str, ...] = ()


def write_cells(matrix: Matrix, cells: Sequence[Cell], one_off: OneOff) -> str:
    """Return the document; the same file always gives the same text."""
    document = CellsDocument(
        source=matrix.source,
        sha256=matrix.sha256,
        axes=matrix.axes,
        cells=tuple(cells),
        tier=one_off.tier,
        only=tuple(condition.written for _, condition in one_off.only),
        also=tuple(condition.written for _, condition in one_off.also),
        left_out=matrix.left_out,
        warnings=matrix.warnings,
    )
    return dump({"schema": CELLS_SCHEMA, **encode_fields(document)})


def describe_cells() -> dict[str, Any]:
    """Return the JSON Schema of the document."""
    return describe_document(CELLS_SCHEMA, CellsDocument)
