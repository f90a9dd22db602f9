"""``binary-checks ci ACTION``: the files by which CI systems run a matrix."""

from __future__ import annotations

from collections.abc import Mapping

from binary_checks.command.actions import ActionGroup

ACTIONS: Mapping[str, str] = {
    "init": "binary_checks.command.ci.initialising",
    "write": "binary_checks.command.ci.writing_ci",
    "check": "binary_checks.command.ci.checking_ci",
    "pin": "binary_checks.command.ci.pinning_actions",
    "stage": "binary_checks.command.ci.running_stage",
}
"""The modules, loaded when called, in which ``run(arguments)`` returns the exit status."""
_HELP = """\
usage: binary-checks ci ACTION [CELLS.toml] ...

Run a matrix (cells.toml) in CI, by small files that do not change when its cells do.

  init    append a first [ci] table to the matrix, and write the files
  write   write them: GitHub Actions, GitLab, CircleCI, Azure Pipelines, tox, docs
  check   show every difference from what write would write
  pin     pin actions to the commits of their tags, or report pinned tags that have moved
  stage   build, test or publish one cell: the command of a job, the same on a desk

Exit code: 0 done, 1 a file differs or a tag has moved, 4 usage or an unusable matrix, 6 a network
or disk failed: try again.
`binary-checks ci ACTION --help` has the options; `binary-checks cells` lists the matrix.
"""
run = ActionGroup(name="ci", actions=ACTIONS, help=_HELP).run
