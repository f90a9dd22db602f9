"""``binary-checks known``: expire, lint and propose entries of a list of known problems."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from binary_checks.command import SubcommandParser, complain
from binary_checks.command.cells import read_matrix
from binary_checks.errors import PROBLEMS, ProfileError, StoreError
from binary_checks.examination.declarations import find_declared, load_own_kinds, load_own_modules
from binary_checks.files import read_named, replace_file_when_complete
from binary_checks.fleet.known import (
    LONG,
    LOOKED_AT,
    MOST_DAYS,
    PLACEHOLDER,
    FailedProblem,
    LintRules,
    find_headers,
    find_removable,
    key_of,
    lint_list,
    list_failed,
    propose,
    read_before,
    remove_entries,
)
from binary_checks.fleet.night import NightPlan, final_state
from binary_checks.fleet.store import Store, open_store
from binary_checks.fleet.stored_nights import (
    NightAttempts,
    closed_nights,
    list_nights,
    read_date,
    require_plan,
)
from binary_checks.fleet.tables.views import open_tables
from binary_checks.model import CellState
from binary_checks.profile import (
    LARGEST_LIST,
    LIST,
    KnownList,
    KnownProblem,
    load_profile,
    read_known_list,
)
from binary_checks.reports.known_list import iter_entry_lines
from binary_checks.reports.verdict_texts import count
from binary_checks.safe_text import MOST_OF_A_RUN, cut, one_line

# ``binary-checks known expire``: print a list without entries that expired or match nothing.

_EXPIRE = "Print a list without entries that have expired or matched nothing for five nights."
_QUESTION = "select strftime(night, '%Y-%m-%d'), cell, state, coalesce(accepted, 0) from cells"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Row:
    """The result of a cell in one night."""

    cell: str
    state: CellState
    accepted: int


def run_expire(arguments: Sequence[str]) -> int:
    """Print the list, or write it; return the exit status."""
    options = _read_expire_options(arguments)
    path = Path(options.list)
    where = f"{LIST}{options.list}"
    content = read_named(path, LARGEST_LIST, where)
    listed = read_known_list(content, where)
    gone = dict(_find_expired(listed, datetime.now(timezone.utc).date()))
    if options.store:
        gone = {**dict(_find_unmatched(listed, options.store)), **gone}
    edited = remove_entries(content, gone, where)
    for number in sorted(gone):
        complain(f"known expire: {_name(listed.entries[number], number)}: {gone[number]}")
    if not options.write:
        sys.stdout.flush()
        sys.stdout.buffer.write(edited)
        sys.stdout.buffer.flush()
    elif gone:
        _replace(path, edited)
    message = f"{len(gone):,} of {len(listed.entries):,} entries removed"
    todo = "; set issued and valid_until before you publish it" if gone and listed.issued else ""
    complain(f"known expire: {message}{todo}")
    return 0


def _read_expire_options(arguments: Sequence[str]) -> Namespace:
    parser = SubcommandParser(prog="binary-checks known expire", description=_EXPIRE)
    add = parser.add_argument
    add("list", metavar="LIST", help="a file of [[known_problems]]")
    parser.add_store(": entries that match no problem of its nights are removed", required=False)
    add("--write", action="store_true", help="replace the file instead of printing it")
    return parser.parse_args(arguments)


def _name(entry: KnownProblem, number: int) -> str:
    return f"known_problems[{number}], {entry.check}: {entry.reason}"


def _find_expired(listed: KnownList, today: date) -> Iterator[tuple[int, str]]:
    for number, entry in enumerate(listed.entries):
        if entry.has_expired(today):
            yield number, f"expired on {entry.expires}"


def _find_unmatched(listed: KnownList, url: str) -> Iterator[tuple[int, str]]:
    store = open_store(url)
    nights = closed_nights(store)[-LOOKED_AT:]
    if len(nights) < LONG:
        message = "there are too few closed nights to determine which entries match nothing"
        complain(f"known expire: {store.url}: {len(nights)} {message}")
        return
    with open_tables(store, tables=("cells",), nights=nights) as connection:
        rows = _group(connection.execute(_QUESTION).fetchall())
    removable = {*map(key_of, find_removable(listed.entries, read_before(store, rows)))}
    for number, entry in enumerate(listed.entries):
        if key_of(entry) in removable:
            yield number, f"matched nothing for {LONG} nights"


def _group(found: Iterable[tuple[Any, ...]]) -> dict[str, list[_Row]]:
    rows: dict[str, list[_Row]] = {}
    for night, cell, state, accepted in found:
        try:
            row = _Row(cell=str(cell), state=CellState(state), accepted=int(accepted))
        except ValueError:
            raise StoreError(f"night {night}: {cell}: state {state!r:.40} is unknown") from None
        rows.setdefault(str(night), []).append(row)
    return rows


def _replace(path: Path, content: bytes) -> None:
    """Replace a file completely, and keep its mode; if it is a link, replace the link's target."""
    path = path.resolve()
    if not path.is_file():
        raise ProfileError(f"known expire: {path.name}: not a regular file: it cannot be replaced")
    with replace_file_when_complete(path) as file:
        file.write(content)


# ``binary-checks known lint``: report faults of a list before it is published.

_LINT = "Report what is wrong with a list of known problems, one line per fault."


def run_lint(arguments: Sequence[str]) -> int:
    """Print a line for each fault; return the exit status."""
    options = _read_lint_options(arguments)
    name = options.list
    content = read_named(Path(name), LARGEST_LIST, f"{LIST}{name}")
    rules = _read_rules(options)
    try:
        listed = read_known_list(content, name)
    except ProfileError as error:
        print(cut(str(error)))
        return PROBLEMS
    headers = find_headers(content.decode("utf-8"), len(listed.entries))
    found = [*lint_list(listed, rules)]
    for number, fault in found[:MOST_OF_A_RUN]:
        line = f" (line {headers[number] + 1})" if headers and number is not None else ""
        entry = "" if number is None else f" known_problems[{number}]{line}:"
        print(cut(one_line(f"{name}:{entry} {fault}")))
    if len(found) > MOST_OF_A_RUN:
        print(f"and {len(found) - MOST_OF_A_RUN:,} more")
    if not found:
        print(f"{one_line(name)}: nothing wrong in {count(len(listed.entries), 'known problem')}")
    return PROBLEMS if found else 0


def _read_lint_options(arguments: Sequence[str]) -> Namespace:
    parser = SubcommandParser(prog="binary-checks known lint", description=_LINT)
    add = parser.add_argument
    add("list", metavar="LIST", help="a file of [[known_problems]]")
    add(
        "--cells",
        metavar="FILE",
        help="a matrix: every `cells` condition must match some of its cells",
    )
    add(
        "--days",
        metavar="N",
        type=_days,
        default=MOST_DAYS,
        help=f"the longest time until an entry expires, in days (default: {MOST_DAYS})",
    )
    add(
        "--profile",
        metavar="NAME_OR_TOML",
        help="a profile whose own checks the list may name; this runs their code",
    )
    return parser.parse_args(arguments)


def _read_rules(options: Namespace) -> LintRules:
    """Return the rules for the list; this runs the code of the profile's own checks."""
    profile = load_profile(options.profile or "default")
    modules = load_own_modules(profile.checks, load_own_kinds(profile.kinds))
    checks, _ = find_declared(modules)
    return LintRules(
        now=datetime.now(timezone.utc),
        checks=[check.id for check in checks],
        cells=read_matrix(Path(options.cells)).cells if options.cells else None,
        most_days=options.days,
    )


def _days(text: str) -> int:
    if not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= 3660:
        raise ArgumentTypeError(f"{text!r:.40} is not a number of days")
    return int(text)


# ``binary-checks known propose``: entries for a night's failures, which a person must complete.

_PROPOSE = "Print entries for the problems of a night; a person then adds the reason and the owner."


def run_propose(arguments: Sequence[str]) -> int:
    """Print the entries; return the exit status."""
    options = _read_propose_options(arguments)
    store = open_store(options.store)
    night = read_date(options.night, "known propose: DATE") if options.night else _find_last(store)
    plan = require_plan(store, night)
    found, unexplained = _read_failed(store, plan)
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
        for line in iter_entry_lines(entry, sentence):
            print(line)
    proposed, failed = count(len(entries), "known problem"), count(len(chosen), "failure")
    complain(f"known propose: {proposed} for {failed} of {night}")
    if unexplained:
        cells = f"{', '.join(unexplained[:5])}{' ...' * (len(unexplained) > 5)}"
        complain(f"known propose: {cells}: failed for reasons that no entry can accept")
    return 0


def _read_days(text: str) -> int:
    if not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= MOST_DAYS:
        raise ArgumentTypeError(f"{text!r:.40} is not a number from 1 to {MOST_DAYS}")
    return int(text)


def _find_last(store: Store) -> str:
    nights = list_nights(store)
    if not nights:
        raise ProfileError(f"known propose: {store.url}: no nights yet")
    return nights[-1]


def _read_propose_options(arguments: Sequence[str]) -> Namespace:
    parser = SubcommandParser(prog="binary-checks known propose", description=_PROPOSE)
    add = parser.add_argument
    add("night", metavar="DATE", nargs="?", help="the date of the night (default: the newest)")
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
    add(
        "--days",
        metavar="N",
        type=_read_days,
        default=14,
        help="days until the entries expire (default: 14)",
    )
    return parser.parse_args(arguments)


def _read_failed(store: Store, plan: NightPlan) -> tuple[list[FailedProblem], list[str]]:
    """Return the problems of failed cells, and the failed cells that show no problem."""
    attempts, found, unexplained = (
        NightAttempts(store, plan.night),
        list[FailedProblem](),
        list[str](),
    )
    for planned in plan.cells:
        end = final_state(planned, attempts.read(planned.cell.id))
        if end.state is CellState.FAILED:
            problems = [*list_failed(planned, end)]
            found += problems
            unexplained += [] if problems else [planned.cell.id]
    return found, unexplained
