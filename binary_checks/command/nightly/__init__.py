"""``binary-checks nightly ACTION``: the nights of a matrix, a module for each action."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

from binary_checks.command import MISUSED, complain, guard, suggest

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

  run [CELLS.toml]   plan tonight, or go on with it, and run what it lacks
  collect            make the night's tables, and close it
  summary            how it ended, for the morning mail
  show CELL          how a cell ended, why, and the command that runs it again
  rerun CELL         judge here the very bytes that the night judged
  prune              what retention would delete; --do-it deletes it

The store is a folder or s3://bucket/prefix. `binary-checks nightly ACTION --help` has the options;
`binary-checks cells` lists the matrix, hud writes the page, query answers questions.
"""


def run(arguments: Sequence[str]) -> int:
    """Do what is asked of the nights; returns the exit status."""
    if not arguments or arguments[0] not in ACTIONS:
        return _answer(arguments)
    action: Callable[[Sequence[str]], int] = import_module(ACTIONS[arguments[0]]).run
    return guard(lambda: action(arguments[1:]), OSError)


def _answer(arguments: Sequence[str]) -> int:
    """Print the help, or refuse an action that there is not."""
    if arguments and arguments[0] in ("-h", "--help"):
        print(_HELP, end="")
        return 0
    known = ", ".join(ACTIONS)
    hint = suggest(arguments[0], ACTIONS) if arguments else ""
    named = f"{arguments[0]}: not an action{hint}" if arguments else "no action"
    complain(f"nightly: {named} (known: {known})")
    return MISUSED
