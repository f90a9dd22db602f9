"""``binary-checks known lint``: what is wrong with a list before it is published."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from binary_checks.command import SubcommandParser
from binary_checks.command.cells import read_matrix
from binary_checks.errors import PROBLEMS, ProfileError
from binary_checks.examination.declarations import find_declared, load_own_checks
from binary_checks.files import read_named
from binary_checks.fleet.known import MOST_DAYS, LintRules, find_headers, lint_list
from binary_checks.lines import MOST_OF_A_RUN, cut, one_line
from binary_checks.profile.known import LARGEST_LIST, LIST, read_known_list
from binary_checks.profile.reading import load_profile
from binary_checks.reports.verdict_texts import count

_PURPOSE = "Report what is wrong with a list of known problems, one line per fault."


def run(arguments: Sequence[str]) -> int:
    """Print a line for each fault; returns the exit status."""
    options = _read_options(arguments)
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
    for number, said in found[:MOST_OF_A_RUN]:
        line = f" (line {headers[number] + 1})" if headers and number is not None else ""
        entry = "" if number is None else f" known_problems[{number}]{line}:"
        print(cut(one_line(f"{name}:{entry} {said}")))
    if len(found) > MOST_OF_A_RUN:
        print(f"and {len(found) - MOST_OF_A_RUN:,} more")
    if not found:
        print(f"{one_line(name)}: nothing wrong in {count(len(listed.entries), 'known problem')}")
    return PROBLEMS if found else 0


def _read_options(arguments: Sequence[str]) -> Namespace:
    parser = SubcommandParser(prog="binary-checks known lint", description=_PURPOSE)
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
        help=f"the most days until an entry may expire (default: {MOST_DAYS})",
    )
    add(
        "--profile",
        metavar="NAME_OR_TOML",
        help="a profile whose own checks are known, too; runs their code",
    )
    return parser.parse_args(arguments)


def _read_rules(options: Namespace) -> LintRules:
    """What the list is held against; runs the code of the profile's own checks."""
    own = load_profile(options.profile).checks if options.profile else ()
    checks, _ = find_declared(map(load_own_checks, own))
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
