"""A run's problems as a list of known problems, which accepts only these until it expires."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from datetime import date
from typing import TextIO

from binary_checks.model import PackageResult, RunResult
from binary_checks.profile import TABLE, KnownProblem, escape_glob, is_follow_up, quote_toml
from binary_checks.safe_text import one_line

REASON = "to be filled in: why it is accepted"
_MONTHS = 3
_HEADING = """\
# Problems that binary-checks found. Each entry accepts one of them, until the day it expires.
# Give the reason in each entry, and remove the entries of fixed problems. Used with:
# --binary-known-problems THIS-FILE
"""
_WHEEL = re.compile(r"(?P<name>[^-]+)-[^-]+(?P<rest>-.+\.whl)")


def write(run: RunResult, out: TextIO) -> None:
    """Write the list; the heading only at the start of a file, not between older entries."""
    if not (out.seekable() and out.tell()):
        out.write(run.program.name_options(_HEADING))
    write_entries(run.packages, out, date.today())


def write_entries(packages: Iterable[PackageResult], out: TextIO, today: date) -> None:
    """Write an entry for each problem, in the order of packages and checks."""
    for known, sentence in list_known(packages, today):
        out.write("\n")
        out.writelines(f"{line}\n" for line in iter_entry_lines(known, sentence))


def list_known(
    packages: Iterable[PackageResult], today: date
) -> Iterator[tuple[KnownProblem, str]]:
    """Yield entries that accept all errors of these packages, each with the problem's sentence.

    The entries accept no other problems. Only problems that a check found in a package can be
    accepted. Unreadable packages, gaps of required families and complaints about entries cannot.
    """
    packages = tuple(packages)
    names = [package.file_name for package in packages]
    years, month = divmod(today.month - 1 + _MONTHS, 12)
    expires = date(today.year + years, month + 1, min(today.day, 28))
    for package in packages:
        glob = _match_package(package.file_name, names)
        for entry in package.entries:
            for problem in () if entry.reason else entry.problems:
                if not is_follow_up(problem):
                    known = KnownProblem(
                        check=entry.check,
                        path=escape_glob(problem.path),
                        facts=problem.facts,
                        package=glob,
                        reason=REASON,
                        expires=expires,
                    )
                    yield known, problem.sentence


def describe_written(packages: Iterable[PackageResult], file: str) -> str:
    """Return a sentence about the entries written, and the user's next step."""
    entries = [*list_known(packages, date.today())]
    if not entries:
        return f"{file}: no new problem to accept"
    count = f"{len(entries):,} problem{'s' * (len(entries) > 1)}"
    todo = f"state why in its reasons, and pass --binary-known-problems {shlex.quote(file)}"
    until = entries[0][0].expires
    return f"{file}: accepts {count} of this run until {until}; {todo}"


def _match_package(file_name: str, others: list[str]) -> str:
    """Return a pattern for all versions of a package, unless it would match another package."""
    match = _WHEEL.fullmatch(file_name)
    if match is None:
        return escape_glob(file_name)
    any_version = KnownProblem(
        check="", reason="", package=f"{escape_glob(match['name'])}-*{escape_glob(match['rest'])}"
    )
    if sum(map(any_version.selects, {*others})) > 1:
        return escape_glob(file_name)
    return any_version.package


def iter_entry_lines(known: KnownProblem, sentence: str) -> Iterator[str]:
    """Yield the lines of an entry; the first is a comment with the problem's sentence."""
    yield f"# {one_line(sentence)}"
    yield f"[[{TABLE}]]"
    for key in ("check", "path"):
        yield f"{key} = {quote_toml(getattr(known, key))}"
    if known.facts is not None:
        yield f"facts = [{', '.join(map(quote_toml, known.facts))}]"
    for key in ("package", "reason"):
        yield f"{key} = {quote_toml(getattr(known, key))}"
    yield f"expires = {known.expires}"
