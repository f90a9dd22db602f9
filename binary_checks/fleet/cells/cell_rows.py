"""A project's cells as a table: what they have in common, and a row for those alike but for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from binary_checks.fleet.cell import Cell

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
