"""``binary-checks known``: lint a list of known problems, and remove entries that expired."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timezone
from pathlib import Path

from binary_checks.command import SubcommandParser, complain
from binary_checks.command.cells import read_matrix
from binary_checks.errors import PROBLEMS, ProfileError
from binary_checks.examination.declarations import find_declared, load_own_kinds, load_own_modules
from binary_checks.files import read_named, replace_file_when_complete
from binary_checks.fleet.known import (
    LONG,
    LOOKED_AT,
    MOST_DAYS,
    LintRules,
    find_removable,
    key_of,
    lint_list,
    list_ended,
    read_waived_nights,
    remove_entries,
)
from binary_checks.fleet.store import open_store
from binary_checks.fleet.stored_nights import closed_nights
from binary_checks.fleet.tables.views import open_tables
from binary_checks.profile import (
    LARGEST_LIST,
    LIST,
    KnownList,
    line_of_table,
    load_profile,
    read_known_list,
)
from binary_checks.reports.verdict_texts import count
from binary_checks.safe_text import MOST_OF_A_RUN, cut, one_line

# ``binary-checks known expire``: print a list without entries that expired or match nothing.

_EXPIRE = "Print a list without entries that have expired or matched nothing for five nights."


def run_expire(arguments: Sequence[str]) -> int:
    """Print the list, or write it; return the exit status."""
    parser = SubcommandParser(prog="binary-checks known expire", description=_EXPIRE)
    add = parser.add_argument
    add("list", metavar="LIST", help="a file of [[known_problems]]")
    parser.add_store(": entries that match no problem of its nights are removed", required=False)
    add("--write", action="store_true", help="replace the file instead of printing it")
    options = parser.parse_args(arguments)
    path = Path(options.list)
    where = f"{LIST}{options.list}"
    content = read_named(path, LARGEST_LIST, where)
    listed = read_known_list(content, where)
    gone = dict(_find_unmatched(listed, options.store)) if options.store else {}
    gone |= _find_expired(listed, datetime.now(timezone.utc).date())
    edited = remove_entries(content, gone, where)
    for number in sorted(gone):
        entry = listed.entries[number]
        shown = f"known_problems[{number}], {entry.check}: {entry.reason}"
        complain(f"known expire: {shown}: {gone[number]}")
    if not options.write:
        sys.stdout.flush()
        sys.stdout.buffer.write(edited)
        sys.stdout.buffer.flush()
    elif gone:
        _replace(path.resolve(), edited)
    message = f"{len(gone):,} of {len(listed.entries):,} entries removed"
    todo = "; set issued and valid_until before you publish it" if gone and listed.issued else ""
    complain(f"known expire: {message}{todo}")
    return 0


def _find_expired(listed: KnownList, today: date) -> dict[int, str]:
    return {
        number: f"expired on {entry.expires}"
        for number, entry in enumerate(listed.entries)
        if entry.has_expired(today)
    }


def _find_unmatched(listed: KnownList, url: str) -> Iterator[tuple[int, str]]:
    store = open_store(url)
    nights = closed_nights(store)[-LOOKED_AT:]
    if len(nights) < LONG:
        message = "there are too few closed nights to determine which entries match nothing"
        complain(f"known expire: {store.url}: {len(nights)} {message}")
        return
    with open_tables(store, tables=("cells",), nights=nights) as connection:
        ended = list_ended(connection)
    found = find_removable(listed.entries, read_waived_nights(store, ended))
    removable = {key_of(each) for each in found}
    for number, entry in enumerate(listed.entries):
        if key_of(entry) in removable:
            yield number, f"matched nothing for {LONG} nights"


def _replace(path: Path, content: bytes) -> None:
    """Replace a file completely, and keep its mode."""
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
    found = [*lint_list(listed, rules)]
    for number, fault in found[:MOST_OF_A_RUN]:
        place = name
        if number is not None:
            line = line_of_table(listed.entries[number].check)
            place = f"{name}:{line}: known_problems[{number}]"
        print(cut(one_line(f"{place}: {fault}")))
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
        type=_read_days,
        default=MOST_DAYS,
        help=f"the longest time until an entry expires, in days (default: {MOST_DAYS})",
    )
    add(
        "--profile",
        metavar="NAME_OR_TOML",
        help="a profile whose own checks the list may name; this runs their code",
    )
    return parser.parse_args(arguments)


def _read_days(text: str) -> int:
    if not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= 3660:
        raise ArgumentTypeError(f"{text!r:.40} is not a number of days")
    return int(text)


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
