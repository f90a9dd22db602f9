"""The cells of a matrix as a document for machines: what `binary-checks cells --json` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from binary_checks.documents.encoding import dump, encode_fields
from binary_checks.documents.json_schema import describe_document
from binary_checks.fleet.cell import Cell
from binary_checks.fleet.cells.choosing import OneOff
from binary_checks.fleet.cells.matrix import LeftOut, Matrix
from binary_checks.fleet.cells.tiers import NIGHTLY

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
