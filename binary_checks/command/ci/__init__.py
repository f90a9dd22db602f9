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
  check   show every difference from what write would write
  pin     pin actions to the commits of their tags, or report pinned tags that have moved
  choose  list the cells of a run; the generated workflows call it

Exit code: 0 done, 1 a file differs or a tag has moved, 4 usage or an unusable matrix, 6 a network
or disk failed: try again.
`binary-checks ci ACTION --help` has the options; `binary-checks cells` lists the matrix.
"""
run = ActionGroup(name="ci", actions=ACTIONS, help=_HELP).run
