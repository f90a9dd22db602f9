"""Prints the facts of one package, without a verdict."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from binary_checks.command import MISUSED, SubcommandParser, complain
from binary_checks.errors import (
    BinaryChecksError,
    GatherError,
    NotApplicable,
    ProfileError,
    Unavailable,
)
from binary_checks.gather.examination import Examination, examine
from binary_checks.lines import MOST_OF_A_RUN, cut, one_line
from binary_checks.model import Linkage, Package
from binary_checks.packages import recognises
from binary_checks.profile.reading import find_profile, load_profile

_UNREADABLE = 1


def run(arguments: Sequence[str]) -> int:
    """Print the facts of one package without a verdict: a summary, or everything as JSON."""
    status = 0
    try:
        _inspect(_inspect_options().parse_args(arguments))
    except ProfileError as error:
        complain(str(error))
        status = MISUSED
    except BinaryChecksError as error:
        complain(str(error))
        status = _UNREADABLE
    return status


def _inspect(options: argparse.Namespace) -> None:
    for name in (options.package, *options.beside):
        path = Path(name)
        try:
            folder = name is not options.package and path.is_dir()
            found = folder or (recognises(path) and path.is_file())
        except OSError as error:  # too long a name
            raise ProfileError(f"{name}: {error.strerror}") from None
        if not found:
            raise ProfileError(f"{name}: not a package file")
    profile = find_profile(Path.cwd()) if options.profile is None else load_profile(options.profile)
    with examine(
        options.package,
        profile=profile,
        companions=options.beside,
        downloads=options.fetches,
        downloads_folder=options.kept,
    ) as facts:
        try:
            _print(facts, options)
        except GatherError as error:  # of this machine: not all of them say for which package
            name = f"{facts.file_name}: "
            raise GatherError(f"{name}{str(error).removeprefix(name)}") from None


def _print(facts: Examination, options: argparse.Namespace) -> None:
    if options.json:
        _print_facts(facts, symbols=options.symbols)
    else:
        from binary_checks.reports.summary import write_summary

        _print_summary(write_summary(facts.get(Package)))


def _print_summary(lines: Iterator[str]) -> None:
    for line in islice(lines, MOST_OF_A_RUN):
        print(cut(one_line(line)))
    if hidden := sum(1 for _ in lines):
        print(f"and {hidden:,} more lines; --json has all facts")


def _inspect_options() -> argparse.ArgumentParser:
    parser = SubcommandParser(prog="binary-checks inspect", description=run.__doc__)
    parser.add_argument("package", metavar="PACKAGE")
    parser.add_argument("--json", action="store_true", help="all facts, not a summary")
    parser.add_argument("--no-symbols", dest="symbols", action="store_false")
    parser.add_argument("--binary-with", dest="beside", metavar="PATH", action="append", default=[])
    parser.add_argument("--binary-with-requirements", dest="fetches", action="store_true")
    parser.add_argument("--binary-requirements-folder", dest="kept", metavar="PATH")
    parser.add_argument("--binary-profile", dest="profile", metavar="NAME_OR_TOML")
    return parser


def _print_facts(facts: Examination, *, symbols: bool) -> None:
    from binary_checks.documents.facts_writer import write_facts

    package = facts.get(Package)
    linkage = None
    try:
        linkage = facts.get(Linkage)
    except NotApplicable:
        pass
    except Unavailable as error:
        complain(f"without linkage: {error}")
    sha256 = facts.source.identity().removeprefix("sha256 ")
    for piece in write_facts(package, sha256, linkage, symbols=symbols):
        sys.stdout.write(piece)
