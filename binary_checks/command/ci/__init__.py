"""``binary-checks ci ACTION``: the files by which CI systems run a matrix."""

from __future__ import annotations

from collections.abc import Mapping

from binary_checks.command.actions import ActionGroup

ACTIONS: Mapping[str, str] = {
    "write": "binary_checks.command.ci.writing_ci",
    "check": "binary_checks.command.ci.checking_ci",
    "pin": "binary_checks.command.ci.pinning_actions",
    "choose": "binary_checks.command.ci.choosing_cells",
}
"""The modules, loaded when called, in which ``run(arguments)`` returns the exit status."""
_HELP = """\
usage: binary-checks ci ACTION [CELLS.toml] ...

Generate the files of CI systems from a matrix (cells.toml), so that none of them drifts.

  write   write them: GitHub Actions, GitLab, CircleCI, Azure Pipelines, tox, docs
  check   exit with 1, and show what differs, where a file is not what write would write
  pin     the commits of actions' tags: actions/checkout@v4.2.2; alone, which tags have moved
  choose  which cells a run makes jobs of, for the generated workflows themselves

`binary-checks ci ACTION --help` has the options; `binary-checks cells` lists the matrix.
"""
run = ActionGroup(name="ci", actions=ACTIONS, help=_HELP).run
