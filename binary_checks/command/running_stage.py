"""``binary-checks ci stage``: what a job of CI does, the same on a desk."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from binary_checks.command import SubcommandParser, complain
from binary_checks.command.cells import read_matrix
from binary_checks.fleet.cells.cells_file import DEFAULT_FILE

_PURPOSE = (
    "Run one stage of a cell in the root of the repository: build fills dist/, test and gpu judge "
    "it, publish keeps it. Of a night: plan it, smoke cells on the CPU or a GPU, collect it."
)


def run(arguments: Sequence[str]) -> int:
    """Run the stage; returns the exit status."""
    from binary_checks.fleet.ci.running_stages import CHAIN, NIGHT, StageRun

    parser = SubcommandParser(prog="binary-checks ci stage", description=_PURPOSE)
    parser.add_argument("stage", choices=(*CHAIN, *NIGHT), help="what to do")
    parser.add_argument(
        "cell",
        metavar="CELL",
        nargs="*",
        help="the id of a cell, several for smoke and smoke-gpu (default: $CELL)",
    )
    parser.add_argument(
        "--cells",
        metavar="FILE",
        type=Path,
        default=Path(DEFAULT_FILE),
        help=f"the matrix (default: {DEFAULT_FILE})",
    )
    options = parser.parse_args(arguments)
    named = options.cell or [os.environ.get("CELL", "")]
    ids = [word for text in named for word in text.split()]  # an id has no spaces
    return StageRun.of(read_matrix(options.cells), complain).run(options.stage, ids)
