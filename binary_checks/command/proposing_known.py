"""``binary-checks known propose``: entries for what failed in a night, for a person to complete."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

from binary_checks.command import SubcommandParser, complain
from binary_checks.errors import ProfileError
from binary_checks.fleet.known import MOST_DAYS, PLACEHOLDER, FailedProblem, list_failed, propose
from binary_checks.fleet.night import NightPlan, final_state
from binary_checks.fleet.store import Store, open_store
from binary_checks.fleet.stored_nights import NightAttempts, demand_plan, list_nights, read_date
from binary_checks.model.outcomes import CellState
from binary_checks.reports.known_list import format_entry
from binary_checks.reports.verdict_texts import count

_PURPOSE = "Print entries for the problems of a night; a person then adds the reason and the owner."


def run(arguments: Sequence[str]) -> int:
    """Print them; returns the exit status."""
    options = _read_options(arguments)
    store = open_store(options.store)
    night = read_date(options.night, "known propose: DATE") if options.night else _find_last(store)
    plan = demand_plan(store, night)
    found, beside = _read_failed(store, plan)
    chosen = [each for each in found if not options.check or each.check in options.check]
    today = datetime.now(timezone.utc).date()
    entries = [
        *propose(
            chosen,
            [each.cell for each in plan.cells],
            owner=options.owner,
            issue=options.issue,
            expires=today + timedelta(days=options.days),
        )
    ]
    print(
        f"# Proposed for the failures of the night of {night}: replace each {PLACEHOLDER}, then run"
    )
    print("# `binary-checks known lint` on the list.")
    for entry, sentence in entries:
        print()
        for line in format_entry(entry, sentence):
            print(line)
    proposed, failed = count(len(entries), "known problem"), count(len(chosen), "failure")
    complain(f"known propose: {proposed} for {failed} of {night}")
    if beside:
        said = "failed for reasons that no entry can accept"
        complain(f"known propose: {', '.join(beside[:5])}{' ...' * (len(beside) > 5)}: {said}")
    return 0


def _days(text: str) -> int:
    if not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= MOST_DAYS:
        raise ArgumentTypeError(f"{text!r:.40} is not a number from 1 to {MOST_DAYS}")
    return int(text)


def _find_last(store: Store) -> str:
    nights = list_nights(store)
    if not nights:
        raise ProfileError(f"known propose: {store.url}: it has no nights yet")
    return nights[-1]


def _read_options(arguments: Sequence[str]) -> Namespace:
    parser = SubcommandParser(prog="binary-checks known propose", description=_PURPOSE)
    add = parser.add_argument
    add("night", metavar="DATE", nargs="?", help="its date (default: the newest)")
    parser.add_store()
    add("--owner", metavar="NAME", default="", help="who is responsible for the entries")
    add("--issue", metavar="URL", default="", help="where the problems are tracked")
    add(
        "--check",
        metavar="ID",
        action="append",
        default=[],
        help="only problems of this check (repeatable)",
    )
    add("--days", metavar="N", type=_days, default=14, help="days until they expire (default: 14)")
    return parser.parse_args(arguments)


def _read_failed(store: Store, plan: NightPlan) -> tuple[list[FailedProblem], list[str]]:
    """The problems of cells that failed, and the cells whose failure shows none."""
    attempts, found, beside = NightAttempts(store, plan.night), list[FailedProblem](), list[str]()
    for planned in plan.cells:
        end = final_state(planned, attempts.read(planned.cell.id))
        if end.state is CellState.FAILED:
            problems = [*list_failed(planned, end)]
            found += problems
            beside += [] if problems else [planned.cell.id]
    return found, beside
