"""The output of `binary-checks cells --json`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from binary_checks.documents.json_schema import describe_document
from binary_checks.documents.json_values import dump, encode_fields
from binary_checks.fleet.cells.choosing import NIGHTLY, OneOff
from binary_checks.fleet.cells.matrix import LeftOut, Matrix
from binary_checks.fleet.night import Cell

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
