"""``binary-checks ci pin``: the commits of actions' tags, asked of the actions' repositories."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from binary_checks.command import SubcommandParser
from binary_checks.command.cells import read_matrix
from binary_checks.errors import PROBLEMS
from binary_checks.fleet.cells.cells_file import DEFAULT_FILE
from binary_checks.lines import one_line

_PURPOSE = (
    "Print lines for [ci.actions] that pin actions to the commits of their tags; without "
    "arguments, report pinned tags that have moved. Asks the repositories of the actions, by git."
)


def run(arguments: Sequence[str]) -> int:
    """Resolve what is named, else hold all pins against their tags; returns the exit status."""
    from binary_checks.fleet.ci.actions import SERVER, list_moved, resolve_pin
    from binary_checks.fleet.ci.ci_settings import read_ci

    parser = SubcommandParser(prog="binary-checks ci pin", description=_PURPOSE)
    parser.add_argument(
        "action", metavar="ACTION@TAG", nargs="*", help="as actions/checkout@v4.2.2"
    )
    parser.add_argument(
        "--cells",
        metavar="FILE",
        type=Path,
        default=Path(DEFAULT_FILE),
        help=f"the matrix (default: {DEFAULT_FILE})",
    )
    parser.add_argument(
        "--server",
        metavar="URL",
        default=SERVER,
        help=f"where the repositories are (default: {SERVER})",
    )
    options = parser.parse_args(arguments)
    if options.action:
        for pin in [resolve_pin(each, options.server) for each in options.action]:
            print(f'"{pin.name}" = {{ commit = "{pin.commit}", tag = "{pin.tag}" }}')
        return 0
    pins = [*read_ci(read_matrix(options.cells)).actions.values()]
    moved = [*list_moved(pins, options.server)]
    for line in moved:
        print(one_line(line))
    if not moved:
        print(f"{len(pins)} actions are pinned to the commits of their tags")
    return PROBLEMS if moved else 0
