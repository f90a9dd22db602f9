"""``binary-checks ci choose``: which cells a run on GitHub makes jobs of, this time."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from binary_checks.command.cell_listing import read_matrix
from binary_checks.command.ci.writing_ci import demand_yaml, make_parser

_PURPOSE = (
    "Print the outputs from which a generated workflow of GitHub's makes its jobs: the ids of the "
    "tier's cells, and what labels or inputs add to them."
)


def run(arguments: Sequence[str]) -> int:
    """Print them; returns the exit status."""
    from binary_checks.fleet.cells.tiers import NIGHTLY, TIERS, choose_tier

    parser = make_parser("choose", _PURPOSE)
    parser.add_argument("--tier", choices=TIERS, default=NIGHTLY, help="the workflow's own")
    options = parser.parse_args(arguments)
    demand_yaml()
    from binary_checks.fleet.ci.github_workflows import describe_choice
    from binary_checks.fleet.ci.making_pipeline import make_pipeline

    matrix = read_matrix(options.file)
    pipeline = make_pipeline(matrix, options.folder, ["github"])
    wanted = {cell.id for cell in choose_tier(matrix.cells, options.tier)}
    chosen = [each for each in pipeline.cells if each.id in wanted]
    sys.stdout.write(describe_choice(pipeline, chosen, options.tier))
    return 0
