"""``binary-checks artifact pull``: fetches artifacts, with licenses, dependencies and a .meta."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from binary_checks.command import TRY_AGAIN, UNREADABLE, SubcommandParser, complain
from binary_checks.command.finding_artifacts import add_wishes, find_wanted
from binary_checks.fleet.artifacts.matching import tell_differences
from binary_checks.fleet.artifacts.transfers import pull
from binary_checks.fleet.store import open_store
from binary_checks.lines import one_line

_PURPOSE = "Fetch artifacts with their licenses, dependencies and metadata (NAME.meta)."


def run(arguments: Sequence[str]) -> int:
    """Fetch what is meant into a folder; returns the exit status."""
    parser = SubcommandParser(prog="binary-checks artifact pull", description=_PURPOSE)
    parser.add_argument(
        "folder", metavar="FOLDER", help="where the files are written; created if new"
    )
    add_wishes(parser)
    parser.add_argument("--all", action="store_true", help="fetch all that match, not just one")
    options = parser.parse_args(arguments)
    store = open_store(options.store)
    found, sound = find_wanted(store, options)
    if not sound:  # which of them is the only one, or the latest, is not known then
        return TRY_AGAIN
    if not found:
        return UNREADABLE
    if len(found) > 1 and not options.all:
        complain(
            f"{len(found)} artifacts match; they differ in {tell_differences(found)}: choose "
            "one with --where, or take --all"
        )
        return UNREADABLE
    folder = Path(options.folder)
    written = pull(store, [each.artifact for each in found], folder)
    for each in written:
        print(one_line(str(folder / each)))
    if not written:
        print(one_line(f"{folder}: nothing to fetch, all files are there"))
    return 0
