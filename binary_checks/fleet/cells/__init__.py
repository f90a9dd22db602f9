"""Cells: the matrix in cells.toml, and the choice of cells for a run."""

from __future__ import annotations

from binary_checks.fleet.cells.cells_file import (
    DEFAULT_FILE,
    fill,
    is_shipped,
    names_file,
    parse_cells,
    read_cells,
    read_rows,
    require_public,
    require_template,
)
from binary_checks.fleet.cells.choosing import (
    ALSO,
    LABELS,
    NIGHTLY,
    ONLY,
    TIERS,
    OneOff,
    choose_cells,
    choose_tier,
    read_one_off,
    shard,
)
from binary_checks.fleet.cells.cibuildwheel_identifiers import write_cells_file
from binary_checks.fleet.cells.listing import (
    CELLS_SCHEMA,
    describe_cells,
    write_cells,
)
from binary_checks.fleet.cells.matrix import (
    PIPS_INDEX,
    CellSource,
    Matrix,
    family_of,
    name_subdir,
    name_target,
    require_value,
)

__all__ = [
    "ALSO",
    "CELLS_SCHEMA",
    "CellSource",
    "DEFAULT_FILE",
    "LABELS",
    "Matrix",
    "NIGHTLY",
    "ONLY",
    "OneOff",
    "PIPS_INDEX",
    "TIERS",
    "choose_cells",
    "choose_tier",
    "describe_cells",
    "family_of",
    "fill",
    "is_shipped",
    "name_subdir",
    "name_target",
    "names_file",
    "parse_cells",
    "read_cells",
    "read_one_off",
    "read_rows",
    "require_public",
    "require_template",
    "require_value",
    "shard",
    "write_cells",
    "write_cells_file",
]
