"""Runs one check over the facts of one package, and weighs what it says against the profile."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from binary_checks.cases import Case
from binary_checks.errors import BinaryChecksError, CheckError, TooLarge, Unavailable
from binary_checks.lines import one_line
from binary_checks.model import (
    Finding,
    Note,
    NotInspected,
    ObjectFile,
    Problem,
)
from binary_checks.profile.reading import KnownProblem, Profile

_RAISE = "raise limit_factor in the profile, or accept it there"


@dataclass(frozen=True, kw_only=True, slots=True)
class Accepted:
    """A problem that the profile knows of."""

    problem: Problem
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What one check says of one package."""

    check: str  # id
    family: str
    package: str  # file name
    inspected: int  # objects judged, or 1 for the package as a whole
    problems: tuple[Problem, ...] = ()  # that nobody accepted
    accepted: tuple[Accepted, ...] = ()
    not_inspected: tuple[NotInspected, ...] = ()
    notes: tuple[Note, ...] = ()

    def lines(self) -> Iterator[str]:
        """Every unaccepted problem as one line that is complete by itself."""
        return (problem_line(self.check, self.package, problem) for problem in self.problems)


def problem_line(
    check_id: str, package_file_name: str, problem: Problem | NotInspected | Note
) -> str:
    """``check-id: package-file-name: path: sentence``, without the path where there is none."""
    parts = (check_id, package_file_name, problem.path, problem.sentence)
    return one_line(": ".join(part for part in parts if part))


def judge(case: Case, profile: Profile, today: date) -> Verdict:
    """Call the check on every subject and sort its findings; never stops at the first.

    Raises CheckError when the check breaks, or yields something else than findings.
    """
    problems = {_too_large(each) for each in case.unread if each.too_large}
    not_inspected = {each for each in case.unread if not each.too_large}
    notes: set[Note] = set()
    options = profile.options.get(case.check.id, {})
    for subject in case.subjects:
        for finding in _ask(case, subject, options):
            if isinstance(finding, NotInspected) and finding.too_large:
                problems.add(_too_large(finding))
            elif isinstance(finding, NotInspected):
                not_inspected.add(finding)
            elif isinstance(finding, Note):
                notes.add(finding)
            else:
                problems.add(finding)
    waivers = profile.waivers(case.check.id, case.package_file_name, *case.names)
    accepted = tuple(_accept(problems, waivers, today))
    remaining = problems - {item.problem for item in accepted}
    stale = () if not_inspected else _stale(waivers, problems)
    return Verdict(
        check=case.check.id,
        family=case.check.family,
        package=case.package_file_name,
        inspected=len(case.subjects),
        problems=(*sorted(remaining), *stale),
        accepted=accepted,
        not_inspected=tuple(sorted(not_inspected)),
        notes=tuple(sorted(notes)),
    )


def _too_large(hidden: NotInspected) -> Problem:
    """What a limit of ours hides is a problem: behind ten million symbols lay four faults."""
    sentence = f"too large to inspect: {hidden.sentence}; {_RAISE}"
    return Problem(path=hidden.path, sentence=sentence)


def _ask(
    case: Case, subject: Any, options: Mapping[str, Any]
) -> Iterator[Problem | NotInspected | Note]:
    """What the check says of one subject, once it is known to be something that can be said."""
    path = subject.path if isinstance(subject, ObjectFile) else ""
    try:
        findings = case.check(subject, *case.evidence, **options)
        if isinstance(findings, str):
            raise CheckError("the check returns a text; findings are yielded")
        for finding in findings:
            if not isinstance(finding, Finding) or not all(_texts(finding)):
                raise CheckError(f"the check yields {finding!r:.80}, which is no finding")
            yield _complete(finding, path)
    except Unavailable as error:  # of one object the symbols may not be known
        too_large = isinstance(error, TooLarge)
        yield NotInspected(path=_encodable(path), sentence=str(error), too_large=too_large)
    except BinaryChecksError:
        raise
    except (Exception, SystemExit) as error:
        *_, place = traceback.extract_tb(error.__traceback__)
        where = f"{Path(place.filename).name}:{place.lineno}"
        raise CheckError(f"the check broke: {type(error).__name__}: {error} ({where})") from error


def _complete(finding: Finding, path: str) -> Problem | NotInspected | Note:
    """The finding with the judged object's path, in characters that every file can hold."""
    if isinstance(finding, str):
        finding = Problem(path=path, sentence=finding)
    elif isinstance(finding, (NotInspected, Note)):
        finding = replace(finding, path=finding.path or path)
    return replace(finding, path=_encodable(finding.path), sentence=_encodable(finding.sentence))


def _encodable(text: str) -> str:
    """The text with escapes for halves of characters, which an exception's text may hold."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _texts(finding: Finding) -> Iterator[bool]:
    """Whether each part of a finding is a text, and the sentence one that says something."""
    if isinstance(finding, str):
        yield bool(finding)
    else:
        yield isinstance(finding.path, str)
        yield isinstance(finding.sentence, str) and bool(finding.sentence)


def _accept(
    problems: set[Problem], waivers: tuple[KnownProblem, ...], today: date
) -> Iterator[Accepted]:
    for problem in sorted(problems):
        waiver = next((known for known in waivers if known.accepts(problem, today)), None)
        if waiver is not None:
            yield Accepted(problem=problem, reason=waiver.reason)


def _stale(waivers: tuple[KnownProblem, ...], problems: set[Problem]) -> tuple[Problem, ...]:
    """A problem for each waiver that matched nothing; an expired one that still matches is none."""
    return tuple(
        Problem(
            sentence=f"known problem {waiver.reason!r} matched nothing; remove it from the profile"
        )
        for waiver in waivers
        if not any(waiver.accepts(problem, date.min) for problem in problems)
    )
