"""``binary-checks ci choose``: which cells a run on GitHub or GitLab makes jobs of, this time."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from binary_checks.command.cell_listing import add_one_off, ask_one_off, read_matrix
from binary_checks.command.ci.writing_ci import demand_yaml, make_parser
from binary_checks.errors import ProfileError
from binary_checks.fleet.cells.choosing import choose_cells
from binary_checks.fleet.cells.tiers import choose_tier

_PURPOSE = (
    "Print what this run makes its jobs from: the cells of the tier, and those that labels or "
    "inputs add. GitHub takes them as outputs of a job, GitLab as a child pipeline."
)
_SYSTEMS = ("github", "gitlab")


def run(arguments: Sequence[str]) -> int:
    """Print them; returns the exit status."""
    parser = make_parser("choose", _PURPOSE)
    add_one_off(parser)
    options = parser.parse_args(arguments)
    system = (options.system or ["github"])[-1]
    if system not in _SYSTEMS:
        known = ", ".join(_SYSTEMS)
        raise ProfileError(f"ci choose: --system {system!r:.40} is not one of: {known}")
    demand_yaml()
    from binary_checks.fleet.ci import github_workflows, gitlab_pipelines
    from binary_checks.fleet.ci.making_pipeline import make_pipeline

    matrix = read_matrix(options.file)
    one_off = ask_one_off(options)
    enabled = one_off.enable(matrix)
    chosen = choose_cells(enabled.cells, one_off=one_off)
    pipeline = make_pipeline(enabled, options.folder, [system])
    if system == "gitlab":
        text = gitlab_pipelines.describe_choice(pipeline, chosen, options.tier)
    else:
        listed = choose_tier(matrix.cells, options.tier)  # as the workflow was written
        text = github_workflows.describe_choice(pipeline, chosen, listed)
    sys.stdout.write(text)
    return 0
