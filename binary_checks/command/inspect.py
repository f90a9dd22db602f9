"""``binary-checks inspect`` prints the facts of packages, ``--list`` the checks that apply."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any

from binary_checks.command import (
    MISUSED,
    TRY_AGAIN,
    UNREADABLE,
    SubcommandParser,
    complain,
    guard,
    status_of,
    suggest,
)
from binary_checks.declaring import Check
from binary_checks.errors import (
    BinaryChecksError,
    GatherError,
    NotApplicable,
    ProfileError,
    Unavailable,
)
from binary_checks.examination.declarations import (
    find_declared,
    load_own_kinds,
    load_own_modules,
)
from binary_checks.examination.examination import Examination
from binary_checks.examination.facts import find_gatherer
from binary_checks.examination.run import examine
from binary_checks.model import (
    BinaryConfiguration,
    DeviceCodeRequest,
    DeviceDetails,
    Linkage,
    LinkedLibraries,
    Outcome,
    Package,
    Request,
)
from binary_checks.packages import OwnKind
from binary_checks.profile import Profile, find_profile, leave_out_code, load_profile, validate
from binary_checks.reports.explanation import abridge, as_plain
from binary_checks.safe_text import MOST_OF_A_RUN, cut, one_line
from binary_checks.sources import expand, is_published, require_named
from binary_checks.sources.file import require_package
from binary_checks.wording.sentences import describe_origin

# Print the facts of packages, without a verdict.

_INSPECT = "Print the facts of packages without a verdict: a summary, or everything as JSON."


def run_inspect(arguments: Sequence[str]) -> int:
    """Print the facts of packages; return the exit status. Raises ProfileError."""
    options = _inspect_options().parse_args(arguments)
    profile, kinds = _load_profile(options.profile)
    if options.device_details:
        everything = DeviceCodeRequest(thorough=True)
        profile = replace(profile, requests={**profile.requests, DeviceCodeRequest: everything})
    for name in options.companions:
        if not os.path.isdir(name):  # noqa: PTH112 - false for a name that is too long
            require_package(name, kinds)
    names = [name for each in options.packages for name in expand(each, Path.cwd(), kinds)]
    separators: Iterator[str] = (
        chain(["[\n"], repeat(",\n")) if options.json else chain([""], repeat("\n"))
    )
    if len(names) == 1:
        separators = repeat("")
    statuses = {_inspect(name, options, profile, kinds, separators) for name in names}
    if options.json and len(names) != 1:
        sys.stdout.write("[\n]\n" if next(separators) == "[\n" else "]\n")
    return _choose_status(statuses)


def _load_profile(named: str | None) -> tuple[Profile, tuple[OwnKind, ...]]:
    """Return the profile and its kinds of packages; if it was found, run none of its code."""
    if named is None:
        return find_profile(Path.cwd()), ()
    profile = load_profile(named)
    return profile, load_own_kinds(profile.kinds)


def _choose_status(statuses: Collection[int]) -> int:
    return next((each for each in (MISUSED, UNREADABLE, TRY_AGAIN) if each in statuses), 0)


def _inspect(
    name: str,
    options: argparse.Namespace,
    profile: Profile,
    kinds: tuple[OwnKind, ...],
    separators: Iterator[str],
) -> int:
    """Print the facts of one package, or an error; return the exit status."""
    try:
        require_named(name, Path.cwd(), kinds)
        with examine(
            name,
            profile=profile,
            kinds=kinds,
            python=options.python,
            target=options.target,
            companions=options.companions,
            downloads=options.fetches,
            downloads_folder=options.kept,
            configuration=options.configuration,
        ) as facts:
            _print_facts(facts, options, separators)
    except BinaryChecksError as error:
        # the message of a failure of this machine may not name the package
        unnamed = isinstance(error, GatherError) and not is_published(name, Path.cwd())
        about = f"{Path(name).name}: " if unnamed else ""
        complain(f"{about}{str(error).removeprefix(about)}")
        return status_of(error)
    return 0


def _print_facts(
    facts: Examination, options: argparse.Namespace, separators: Iterator[str]
) -> None:
    """Gather all facts before printing: a document is complete or absent."""
    package, linkage = facts.get(Package), _get_linkage(facts)
    configuration, linked = facts.get(BinaryConfiguration), facts.get(LinkedLibraries)
    details = facts.get(DeviceDetails) if options.device_details else None
    if options.json:
        from binary_checks.documents.facts import DERIVED, write_facts

        algorithm, _, digest = facts.source.identity().partition(" ")
        # an installed package has the hash of RECORD instead
        sha256 = digest if algorithm == "sha256" else ""
        derived: dict[str, object] = {name: facts.get(kind) for name, kind in DERIVED.items()}
        sys.stdout.write(next(separators))
        sys.stdout.writelines(
            write_facts(package, sha256, linkage, derived, details=details, symbols=options.symbols)
        )
    else:
        from binary_checks.reports.summary import write_summary

        sys.stdout.write(next(separators))
        lines = write_summary(package, linkage, configuration, linked, details)
        _print_summary(chain(lines, _name_origin(facts)))


def _name_origin(facts: Examination) -> Iterator[str]:
    """Yield the package's origin if it is a published package."""
    remote = facts.source.remote()
    if remote is not None:
        yield f"  published     {describe_origin(remote.provenance)}"


def _get_linkage(facts: Examination) -> Linkage | None:
    try:
        return facts.get(Linkage)
    except NotApplicable:
        pass
    except Unavailable as error:
        complain(f"{facts.file_name}: without linkage: {error}")
    return None


def _print_summary(lines: Iterator[str]) -> None:
    for line in islice(lines, MOST_OF_A_RUN):
        print(cut(one_line(line)))
    if omitted := sum(1 for _ in lines):
        print(f"and {omitted:,} more lines; --json has all facts")


def _inspect_options() -> argparse.ArgumentParser:
    parser = SubcommandParser(prog="binary-checks inspect", description=_INSPECT)
    add = parser.add_argument
    add("packages", metavar="PACKAGE", nargs="+")
    add("--json", action="store_true", help="all facts; an array for several packages")
    add("--no-symbols", dest="symbols", action="store_false", help="JSON without symbols")
    add(
        "--device-details",
        action="store_true",
        help="decompress the code for NVIDIA's GPUs (extra device), and show its toolkits, drivers "
        "that run it, its PTX versions, and code that cannot be decompressed",
    )
    add(
        "--with",
        dest="companions",
        metavar="PATH",
        action="append",
        default=[],
        help="a required wheel, or a folder of wheels (repeatable)",
    )
    add(
        "--with-requirements",
        dest="fetches",
        action="store_true",
        help="download required wheels that are not given",
    )
    add(
        "--requirements-folder",
        dest="kept",
        metavar="PATH",
        help="keep the downloaded wheels in this folder",
    )
    add("--python", dest="python", metavar="PATH", help="the interpreter of installed:NAME")
    add(
        "--for",
        dest="target",
        metavar="TARGET",
        default="",
        help="the Python and system of a published package, as cp312-win_amd64",
    )
    add(
        "--configuration",
        dest="configuration",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="the stated configuration, as python=3.11 (repeatable); variables are not read",
    )
    add(
        "--profile",
        dest="profile",
        metavar="NAME_OR_TOML",
        help="the profile, for its limits and system libraries",
    )
    return parser


# List the checks: id, level and family and, for named packages, which checks apply.

_LIST = "List every check and, for each named package, whether it applies or why not."
_Row = tuple[str, str, str, str]


def run_list(arguments: Sequence[str]) -> int:
    """List the checks; return the exit status. Raises ProfileError."""
    options = _read_list_options(arguments)
    profile, checks, kinds = _choose(options)
    if not options.packages:
        _print_rows(
            (*_describe(check, profile), as_plain(abridge(check).title)) for check in checks
        )
        return 0
    names = [name for each in options.packages for name in expand(each, Path.cwd(), kinds)]
    return _choose_status({guard(partial(_list, name, profile, checks, kinds)) for name in names})


def _read_list_options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = SubcommandParser(prog="binary-checks --list", description=_LIST)
    parser.add_argument("packages", metavar="PACKAGE", nargs="*")
    parser.add_argument("-m", dest="family", metavar="FAMILY", help="only the checks of one family")
    parser.add_argument("--profile", dest="profile", metavar="NAME_OR_TOML")
    parser.add_argument("--static", action="store_true", help="only checks that run nothing")
    return parser.parse_args(arguments)


def _choose(
    options: argparse.Namespace,
) -> tuple[Profile, tuple[Check[Any], ...], tuple[OwnKind, ...]]:
    """Return the profile, the requested checks, and the profile's own kinds of packages."""
    profile, kinds = _load_profile(options.profile)
    named = options.profile is not None
    every, gatherers = find_declared(load_own_modules(profile.checks if named else (), kinds))
    if not named:
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
    return validate(profile, every, gatherers.values()), checks, kinds


def _list(
    name: str, profile: Profile, checks: Iterable[Check[Any]], kinds: tuple[OwnKind, ...]
) -> int:
    """Print the list for one package; return the exit status."""
    require_named(name, Path.cwd(), kinds)
    with examine(name, profile=profile, kinds=kinds) as facts:
        package = facts.get(Package)  # raises an error if it cannot be read: then there is no list
        print(one_line(facts.file_name if facts.source.remote() else name))
        fitting = frozenset(check.id for check in facts.applicable_checks(checks))
        shown = [e for e in checks if e.id in fitting and _is_for(e, package)]
        _print_rows((*_describe(e, profile), _judge(e, facts, profile)) for e in shown)
        if others := len([*checks]) - len(shown):
            print(f"{others} more are for other kinds of packages or objects: binary-checks --list")
    return 0


def _describe(check: Check[Any], profile: Profile) -> tuple[str, str, str]:
    level = profile.level_of(check.id, "", check.level).value
    return check.id, level if profile.selects(check) else "off", check.family


def _judge(check: Check[Any], facts: Examination, profile: Profile) -> str:
    """Return whether the check applies to the package; no code of the package runs."""
    if not profile.selects(check):
        return "off: a profile may enable it"
    if check.runs_package:
        table = _find_unasked(check, profile)
        unasked = f"not applicable: the profile names no module for it ([probes.{table}] module)"
        return unasked if table else "runs the package"
    verdict = facts.judge(facts.prepare(check))
    if verdict.outcome in (Outcome.NOT_APPLICABLE, Outcome.NOT_INSPECTED):
        return f"{verdict.outcome.value}: {verdict.reason}"
    return "applies"


def _find_unasked(check: Check[Any], profile: Profile) -> str:
    """Return the table that a check's probe needs, if the profile lacks it; "" otherwise."""
    for kind in chain.from_iterable(_list_needed(check)):
        if issubclass(kind, Request) and not getattr(
            profile.requests.get(kind, kind()), "module", True
        ):
            return kind.table
    return ""


def _is_for(check: Check[Any], package: Package) -> bool:
    """Return whether the check's facts can be found in a package of this kind."""
    return not any(
        all(issubclass(kind, Package) for kind in kinds) and not isinstance(package, kinds)
        for kinds in _list_needed(check)
    )


def _list_needed(check: Check[Any]) -> list[tuple[type, ...]]:
    """Return the alternatives for each fact of a check, and for each fact of their gatherers."""
    gatherers = (find_gatherer(kind, {}) for kinds in check.facts for kind in kinds)
    return [*check.facts, *(kinds for each in gatherers if each for kinds in each.facts)]


def _print_rows(rows: Iterable[_Row]) -> None:
    for line in _align([("check", "level", "family", ""), *rows]):
        print(line)


def _align(rows: Sequence[_Row]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False))
        yield cut(one_line("  ".join((*cells, row[-1])).rstrip()))
