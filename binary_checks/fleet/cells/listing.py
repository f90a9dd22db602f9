"""The cells of a matrix as a document for machines: what `binary-checks cells --json` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from binary_checks.documents.json_schema import describe_document
from binary_checks.documents.json_values import dump, encode_fields
from binary_checks.fleet.cells.choosing import NIGHTLY, OneOff
from binary_checks.fleet.cells.matrix import LeftOut, Matrix
from binary_checks.fleet.night import Cell

# A project's cells as a table: what they have in common, and a row for those alike but for one.

GPU = "+"
"""Behind a value whose cell has a GPU stage."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CellTable:
    """The cells of one project, for terminals and pages alike."""

    same: Mapping[str, str]  # by axis: the value that all of them have
    axes: tuple[str, ...]  # those that differ, which head the columns; none for a single cell
    rows: Mapping[
        tuple[str, ...], tuple[str, ...]
    ]  # values of all axes but the last -> of the last


def tabulate_cells(cells: Sequence[Cell], used: Sequence[str]) -> CellTable:
    """The table of one project's cells by the axes that its matrix uses."""
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
    """The values of its axes but the project, with system and architecture in one column."""
    both = "-".join(filter(None, (cell.system, cell.architecture)))
    values = {axis: getattr(cell, axis) or "-" for axis in axes if axis != "project"}
    values.pop("architecture", None)
    return {**values, "system": both} if both else values


# The cells of a matrix as a document for machines: what `binary-checks cells --json` prints.

CELLS_SCHEMA = "binary-checks/cells/1"


@dataclass(frozen=True, kw_only=True, slots=True)
class CellsDocument:
    """Cells that were chosen of a matrix, and what the whole matrix says besides."""

    source: str  # the file, as the user named it
    sha256: str  # of the file
    axes: tuple[str, ...]  # that the file uses: they make the ids, in this order
    cells: tuple[Cell, ...]
    tier: str = NIGHTLY
    only: tuple[str, ...] = ()  # conditions that hold this once, and are in no file
    also: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    warnings: tuple[str, ...] = ()


def write_cells(matrix: Matrix, cells: Sequence[Cell], one_off: OneOff) -> str:
    """The document of these cells of a matrix: of the same file always the same text."""
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
    """The JSON Schema of such a document, out of the types that it is written from."""
    return describe_document(CELLS_SCHEMA, CellsDocument)
