"""Lists the checks: id, level and family, and of packages which checks apply, and why not."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from binary_checks.command import (
    MISUSED,
    TRY_AGAIN,
    UNREADABLE,
    SubcommandParser,
    complain,
    guard,
    suggest,
)
from binary_checks.declaring import Check
from binary_checks.errors import ProfileError
from binary_checks.examination.declarations import find_declared, load_own_checks
from binary_checks.examination.examination import Examination
from binary_checks.examination.facts import find_gatherer
from binary_checks.examination.judging import applicable_formats
from binary_checks.examination.run import examine
from binary_checks.lines import cut, one_line
from binary_checks.model import Outcome, Package
from binary_checks.model.requests import Request
from binary_checks.profile.reading import (
    Profile,
    find_profile,
    leave_out_code,
    load_profile,
    validate,
)
from binary_checks.reports.explanation import abridge
from binary_checks.sources import demand_named, expand

_PURPOSE = "List every check, and of each package named whether it applies, and if not, why."
_Row = tuple[str, str, str, str]


def run(arguments: Sequence[str]) -> int:
    """List the checks; returns the exit status."""
    try:
        options = _read_options(arguments)
        profile, checks = _choose(options)
    except ProfileError as error:
        complain(str(error))
        return MISUSED
    if not options.packages:
        _print((*_describe(check, profile), abridge(check).title) for check in checks)
        return 0
    names = [name for each in options.packages for name in expand(each, Path.cwd())]
    statuses = {guard(partial(_list, name, profile, checks)) for name in names}
    return next((each for each in (MISUSED, UNREADABLE, TRY_AGAIN) if each in statuses), 0)


def _read_options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = SubcommandParser(prog="binary-checks --list", description=_PURPOSE)
    parser.add_argument("packages", metavar="PACKAGE", nargs="*")
    parser.add_argument("-m", dest="family", metavar="FAMILY", help="the checks of one family")
    parser.add_argument("--profile", dest="profile", metavar="NAME_OR_TOML")
    parser.add_argument("--static", action="store_true", help="those that run nothing")
    return parser.parse_args(arguments)


def _choose(options: argparse.Namespace) -> tuple[Profile, tuple[Check[Any], ...]]:
    """The profile, without the code of one that was found, and the checks asked for."""
    named = options.profile
    profile = find_profile(Path.cwd()) if named is None else load_profile(named)
    every, gatherers = find_declared(map(load_own_checks, profile.checks if named else ()))
    if named is None:
        profile = leave_out_code(profile, (*every, *gatherers.values()))
    checks = tuple(
        check
        for check in every
        if options.family in (None, check.family) and not (options.static and check.runs_package)
    )
    if not checks:
        known = sorted({check.family for check in every})
        hint = suggest(options.family, known) or f"; there are {', '.join(known)}"
        raise ProfileError(f"-m {options.family}: no such family{hint}")
    return validate(profile, every, gatherers.values()), checks


def _list(name: str, profile: Profile, checks: Iterable[Check[Any]]) -> int:
    """Print the list for one package; the exit status."""
    demand_named(name, Path.cwd())
    with examine(name, profile=replace(profile, checks=())) as facts:
        facts.get(Package)  # of one that cannot be read there is no list
        print(one_line(facts.file_name if facts.source.remote() else name))
        fitting = frozenset(check.id for check in facts.applicable_checks(checks))
        _print(
            (*_describe(check, profile), _judge(check, facts, profile, fits=check.id in fitting))
            for check in checks
        )
    return 0


def _describe(check: Check[Any], profile: Profile) -> tuple[str, str, str]:
    level = profile.level_of(check.id, "", check.level).value
    return check.id, level if profile.selects(check) else "off", check.family


def _judge(check: Check[Any], facts: Examination, profile: Profile, *, fits: bool) -> str:
    """Whether the check applies to the package; nothing of the package runs for that."""
    if not profile.selects(check):
        return "off: a profile may enable it"
    if not fits:
        return f"not applicable: {_say_kind(check)}"
    if check.runs_package:
        table = _find_unasked(check, profile)
        unasked = f"not applicable: the profile asks nothing of it ([probes.{table}] module)"
        return unasked if table else "runs the package"
    verdict = facts.judge(facts.prepare(check))
    if verdict.outcome in (Outcome.NOT_APPLICABLE, Outcome.NOT_INSPECTED):
        return f"{verdict.outcome.value}: {verdict.reason}"
    return "applies"


def _find_unasked(check: Check[Any], profile: Profile) -> str:
    """The table of the profile without which the probe of a check is asked nothing; "" for none."""
    gatherers = (find_gatherer(kind, {}) for kinds in check.facts for kind in kinds)
    needed = (kinds[0] for each in gatherers if each for kinds in each.facts)
    for kind in needed:
        if issubclass(kind, Request) and not getattr(
            profile.requests.get(kind, kind()), "module", True
        ):
            return kind.table
    return ""


def _say_kind(check: Check[Any]) -> str:
    formats = applicable_formats(check)
    if formats is None:
        nouns = sorted({getattr(kind, "noun", kind.__name__.lower()) for kind in check.subjects})
        return f"it is for another kind of package ({' or '.join(nouns)})"
    return f"no {' or '.join(sorted(formats))} object in the package"


def _print(rows: Iterable[_Row]) -> None:
    for line in _align([("check", "level", "family", ""), *rows]):
        print(line)


def _align(rows: Sequence[_Row]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False))
        yield cut(one_line("  ".join((*cells, row[-1])).rstrip()))
