"""``binary-checks known``: lint a list of known problems, and remove entries that expired."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from binary_checks.command import SubcommandParser, complain
from binary_checks.command.cells import read_matrix
from binary_checks.errors import PROBLEMS, ProfileError
from binary_checks.examination.declarations import find_declared, load_own_kinds, load_own_modules
from binary_checks.files import read_named, replace_file_when_complete
from binary_checks.fleet.known import (
    LONG,
    LOOKED_AT,
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
    KnownProblem,
    load_profile,
    read_known_list,
)
from binary_checks.reports.verdict_texts import count
from binary_checks.safe_text import cut, one_line

# ``binary-checks known expire``: print a list without entries that expired or match nothing.


def run_expire(arguments: Sequence[str]) -> int:
    """Print the list, or write it; return the exit status."""
    parser = SubcommandParser(
        prog="binary-checks known expire",
        description="Print a list without entries that have expired or matched nothing for five "
        "nights.",
    )
    parser.add_argument("list", metavar="LIST", help="a file of [[known_problems]]")
    parser.add_store(": entries that match no problem of its nights are removed", required=False)
    parser.add_argument(
        "--write", action="store_true", help="replace the file instead of printing it"
    )
    options = parser.parse_args(arguments)
    path = Path(options.list)
    if options.write and not path.is_file():
        raise ProfileError(f"known expire: {path.name}: not a regular file: it cannot be replaced")
    where = f"{LIST}{options.list}"
    content = read_named(path, LARGEST_LIST, where)
    listed = read_known_list(content, where)
    unmatched = _find_unmatched(listed, options.store) if options.store else frozenset()
    today = datetime.now(timezone.utc).date()
    gone = set[int]()
    for number, entry in enumerate(listed.entries):
        if entry.has_expired(today):
            reason = f"expired on {entry.expires}"
        elif key_of(entry) in unmatched:
            reason = f"matched nothing for {LONG} nights"
        else:
            continue
        gone.add(number)
        shown = f"known_problems[{number}], {entry.check}: {entry.reason}"
        complain(f"known expire: {shown}: {reason}")
    edited = remove_entries(content, gone, where)
    if not options.write:
        sys.stdout.buffer.write(edited)
    elif gone:
        with replace_file_when_complete(path.resolve()) as file:
            file.write(edited)
    todo = "; set issued and valid_until before you publish it" if gone and listed.issued else ""
    complain(f"known expire: {len(gone):,} of {len(listed.entries):,} entries removed{todo}")
    return 0


def _find_unmatched(listed: KnownList, url: str) -> frozenset[KnownProblem]:
    """Return the keys of the entries that matched nothing in the latest nights."""
    store = open_store(url)
    nights = closed_nights(store)[-LOOKED_AT:]
    if not nights:
        complain(f"known expire: {store.url}: no night is closed, so only dates decide")
        return frozenset()
    with open_tables(store, tables=("cells",), nights=nights) as connection:
        ended = list_ended(connection)
    found = find_removable(listed.entries, read_waived_nights(store, ended))
    return frozenset(map(key_of, found))


# ``binary-checks known lint``: report faults of a list before it is published.


def run_lint(arguments: Sequence[str]) -> int:
    """Print a line for each fault; return the exit status."""
    parser = SubcommandParser(
        prog="binary-checks known lint",
        description="Report what is wrong with a list of known problems, one line per fault.",
    )
    parser.add_argument("list", metavar="LIST", help="a file of [[known_problems]]")
    parser.add_argument(
        "--cells",
        metavar="FILE",
        type=Path,
        help="a matrix: every `cells` condition must match some of its cells",
    )
    parser.add_argument(
        "--profile",
        metavar="NAME_OR_TOML",
        default="default",
        help="a profile whose own checks the list may name; this runs their code",
    )
    options = parser.parse_args(arguments)
    name = options.list
    content = read_named(Path(name), LARGEST_LIST, f"{LIST}{name}")
    profile = load_profile(options.profile)
    checks, _ = find_declared(load_own_modules(profile.checks, load_own_kinds(profile.kinds)))
    cells = read_matrix(options.cells).cells if options.cells else None
    try:
        listed = read_known_list(content, name)
    except ProfileError as error:
        print(cut(str(error)))
        return PROBLEMS
    ids = [check.id for check in checks]
    found = [*lint_list(listed, name, ids, cells, datetime.now(timezone.utc))]
    fine = f"{name}: nothing wrong in {count(len(listed.entries), 'known problem')}"
    for line in found or [fine]:
        print(cut(one_line(line)))
    return PROBLEMS if found else 0
