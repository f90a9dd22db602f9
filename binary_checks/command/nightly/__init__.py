"""``binary-checks nightly ACTION``: the nights of a matrix, a module for each action."""

from __future__ import annotations

from collections.abc import Mapping

from binary_checks.command.actions import ActionGroup

ACTIONS: Mapping[str, str] = {
    "run": "binary_checks.command.nightly.night_running",
    "collect": "binary_checks.command.nightly.collecting_nights",
    "show": "binary_checks.command.nightly.showing_cells",
    "rerun": "binary_checks.command.nightly.rerunning_cells",
    "summary": "binary_checks.command.nightly.summarising",
    "prune": "binary_checks.command.nightly.pruning_nights",
}
"""The modules, loaded when called, in which ``run(arguments)`` returns the exit status."""
_HELP = """\
usage: binary-checks nightly ACTION --store URL ...

Judge every cell of a matrix (cells.toml) once a day, and keep the results in a store.

  run [CELLS.toml]   plan tonight, or continue it, and run the cells that have no result yet
  collect            make the night's tables, and close it
  summary            how it ended, for the morning mail
  show CELL          how a cell ended, why, and the command that runs it again
  rerun CELL         judge here the very bytes that the night judged
  prune              show what retention would delete; --do-it deletes it

The store is a folder or s3://bucket/prefix (gs://, az:// alike).
`binary-checks nightly ACTION --help` has the options;
`binary-checks cells` lists the matrix, hud writes the page, query answers questions.
"""

run = ActionGroup(name="nightly", actions=ACTIONS, help=_HELP).run
