"""``binary-checks ci choose``: which cells a run on GitHub makes jobs of, this time."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from binary_checks.command.cell_listing import add_one_off, ask_one_off, read_matrix
from binary_checks.command.ci.writing_ci import demand_yaml, make_parser
from binary_checks.fleet.cells.choosing import choose_cells
from binary_checks.fleet.cells.tiers import choose_tier

_PURPOSE = (
    "Print the outputs from which a generated workflow of GitHub's makes its jobs: the ids of the "
    "tier's cells, and what labels or inputs add to them."
)


def run(arguments: Sequence[str]) -> int:
    """Print them; returns the exit status."""
    parser = make_parser("choose", _PURPOSE)
    add_one_off(parser)
    options = parser.parse_args(arguments)
    demand_yaml()
    from binary_checks.fleet.ci.github_workflows import describe_choice
    from binary_checks.fleet.ci.making_pipeline import make_pipeline

    matrix = read_matrix(options.file)
    one_off = ask_one_off(options)
    enabled = one_off.enable(matrix)
    chosen = choose_cells(enabled.cells, one_off=one_off)
    listed = choose_tier(matrix.cells, options.tier)  # as the workflow was written
    pipeline = make_pipeline(enabled, options.folder, ["github"])
    sys.stdout.write(describe_choice(pipeline, chosen, listed))
    return 0
