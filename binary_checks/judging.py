"""Checks over the facts of one package, weighed against what its project expects."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from binary_checks import objects
from binary_checks.declaring import Check
from binary_checks.errors import (
    BinaryChecksError,
    CheckError,
    GatherError,
    HostUnfit,
    NotApplicable,
    PackageError,
    TooLarge,
    Unavailable,
)
from binary_checks.gather.examination import Examination
from binary_checks.gather.facts import Facts, first_of
from binary_checks.lines import one_line
from binary_checks.model import (
    Finding,
    Format,
    Level,
    MalformedObject,
    Note,
    NotInspected,
    ObjectFile,
    Outcome,
    Package,
    Problem,
    UnreadObject,
)
from binary_checks.model.objects import object_kinds
from binary_checks.model.protocols import Source
from binary_checks.model.published import Release, Survey
from binary_checks.model.run_results import UNREADABLE, CheckResult
from binary_checks.packages import Preview
from binary_checks.profile.known import accept, find_expired, find_stale
from binary_checks.profile.reading import Profile
from binary_checks.wording.problem_lines import problem_lines

_RAISE = "raise limit_factor in the profile, or accept it there"


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A check with everything that it needs to judge one package."""

    check: Check[Any]
    package_file_name: str
    package: Package = field(default_factory=lambda: Package(path=Path()))  # whose paths are shown
    names: tuple[str, ...] = ()  # by which a profile may know the package beside
    place: str = ""  # in which of several it ran, which findings then say
    subjects: tuple[Any, ...]  # what it is called on, one after the other
    evidence: tuple[Any, ...]  # the later positional arguments, the same for every subject
    unread: tuple[NotInspected, ...] = ()  # objects that it should have seen and could not


def applicable_formats(check: Check[Any]) -> frozenset[Format] | None:
    """The formats of which one must occur for the check to be collected; None for any package."""
    if not check.judges_objects:
        return None
    if ObjectFile in check.subjects:
        return frozenset(kind.format for kind in object_kinds().values())
    return frozenset(kind.format for kind in check.subjects if issubclass(kind, ObjectFile))


def prepare(check: Check[Any], facts: Facts) -> Case:
    """Gather what the check asks for.

    Raises NotApplicable, Unavailable, PackageError or GatherError.
    """
    subjects: tuple[Any, ...] = ()
    evidence: tuple[Any, ...] = ()
    unread: tuple[NotInspected, ...] = ()
    try:
        if check.judges_objects:
            package = facts.get(Package)
            subjects, unread = _subjects(check, package), _unread(check, package)
        else:
            subjects = (first_of(check.subjects, facts),)
        evidence = tuple(first_of(kinds, facts) for kinds in check.facts[1:])
    except TooLarge as error:
        subjects, unread = (), (NotInspected(sentence=str(error), too_large=True),)
    return Case(
        check=check,
        package_file_name=facts.label,
        package=_find_shown(check, subjects, facts),
        names=facts.wheel_names,
        place=facts.place,
        subjects=subjects,
        evidence=evidence,
        unread=unread,
    )


def _find_shown(check: Check[Any], subjects: tuple[Any, ...], facts: Facts) -> Package:
    """The package by which paths are shown; it is not read for a check that needs none of it."""
    if not _surveys(check):
        return facts.get(Package)
    return next((each.shown for each in subjects), Package(path=facts.path))


def _subjects(check: Check[Any], package: Package) -> tuple[ObjectFile, ...]:
    subjects = tuple(item for item in package.objects if isinstance(item, check.subjects))
    unread = _unread(check, package)
    if not subjects and unread and not any(item.too_large for item in unread):
        raise Unavailable(f"none of {len(unread)} objects could be read: {unread[0].sentence}")
    if not subjects and not unread:
        formats = applicable_formats(check) or frozenset()
        raise NotApplicable(f"no {' or '.join(sorted(formats))} object in the package")
    return subjects


def _unread(check: Check[Any], package: Package) -> tuple[NotInspected, ...]:
    formats = applicable_formats(check) or frozenset()
    unreadable: tuple[MalformedObject | UnreadObject, ...] = (*package.malformed, *package.unread)
    return tuple(
        NotInspected(
            path=item.path,
            sentence=item.reason,
            too_large=isinstance(item, UnreadObject) and item.too_large,
        )
        for item in unreadable
        if item.format in formats
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict(CheckResult):
    """What one check says of one package, which it names."""

    package: str  # file name
    outcome: Outcome = Outcome.PASSED

    def lines(self) -> Iterator[str]:
        """The unaccepted errors, those of one cause together, as lines complete by themselves."""
        return problem_lines(self.check, self.package, self.problems)


def judge(examination: Examination, *, today: date | None = None) -> Iterator[Verdict]:
    """What every check says that may apply to the package; never stops at the first.

    A package that cannot be read has one verdict, `UNREADABLE`, before those of its checks. What
    breaks has the outcome ``error`` where the network or this machine did, ``broken`` where a
    check did: nothing is raised for it.
    """
    try:
        checks = applicable_checks(examination)
    except PackageError as error:
        yield unreadable(examination.file_name, error)
        return
    readable = True
    for check in checks:
        try:
            yield judge_case(
                prepare(check, examination.facts),
                examination.facts.settings.profile,
                today or date.today(),
            )
        except PackageError as error:
            if readable:
                yield unreadable(examination.file_name, error)
            readable = False
            yield ended(check, examination.file_name, error)
        except BinaryChecksError as error:
            yield ended(check, examination.file_name, error)


def applicable_checks(examination: Examination) -> tuple[Check[Any], ...]:
    """Of the checks asked for those that fit its kind and its formats. Raises PackageError."""
    source = examination.source
    chosen = [check for check in examination.checks if _may_survey(check, source)]
    # All that needs no download comes first: what it finds is known in a second.
    chosen.sort(key=lambda check: not _surveys(check))
    if all(_surveys(check) for check in chosen):
        return tuple(chosen)
    preview = source.preview(objects)
    return tuple(check for check in chosen if _surveys(check) or _fits(check, preview))


def _surveys(check: Check[Any], kind: type[Survey] = Survey) -> bool:
    """Whether it judges what is known without reading the package as a whole."""
    return all(issubclass(subject, kind) for subject in check.subjects)


def _may_survey(check: Check[Any], source: Source) -> bool:
    """Whether such a check has something to judge there; any other kind of check may have."""
    if not _surveys(check):
        return not source.parts()
    return bool(source.parts() if _surveys(check, Release) else source.remote())


def _fits(check: Check[Any], preview: Preview) -> bool:
    kinds = [subject for subject in check.subjects if issubclass(subject, Package)]
    formats = applicable_formats(check)
    right = not kinds or any(issubclass(preview.kind, subject) for subject in kinds)
    return right and (formats is None or bool(formats & preview.formats))


def unreadable(package_file_name: str, error: PackageError) -> Verdict:
    """What there is to say of a package that cannot be read as a whole."""
    sentence = say_once(package_file_name, error)
    return Verdict(
        check=UNREADABLE,
        family="contents",
        package=package_file_name,
        outcome=Outcome.FAILED,
        inspected=0,
        problems=(Problem(sentence=sentence),),
    )


def say_once(package_file_name: str, error: PackageError) -> str:
    """The reason without the file's name, with which the line that will hold it begins anyway."""
    return str(error).removeprefix(one_line(f"{package_file_name}: "))


_ENDS: tuple[tuple[type[BinaryChecksError], Outcome], ...] = (
    (NotApplicable, Outcome.NOT_APPLICABLE),
    (Unavailable, Outcome.NOT_INSPECTED),
    (PackageError, Outcome.NOT_INSPECTED),
    (CheckError, Outcome.BROKEN),
    (GatherError, Outcome.ERROR),
)


def ended(check: Check[Any], package_file_name: str, error: BinaryChecksError) -> Verdict:
    """What there is to say of a check that came to no judgement."""
    reason = str(error)
    if isinstance(error, PackageError):
        reason = f"unreadable package: {say_once(package_file_name, error)}"
    gap = NotInspected(sentence=reason, by_host=True)
    return Verdict(
        check=check.id,
        family=check.family,
        package=package_file_name,
        outcome=next((end for kind, end in _ENDS if isinstance(error, kind)), Outcome.BROKEN),
        reason=one_line(reason),
        inspected=0,
        not_inspected=(gap,) if isinstance(error, HostUnfit) else (),
    )


def judge_case(case: Case, profile: Profile, today: date) -> Verdict:
    """Call the check on every subject and sort its findings; never stops at the first.

    Raises CheckError when the check breaks, or yields something else than findings.
    """
    show = _Shown(case.package, case.place).show
    found: set[Problem] = set()
    not_inspected: set[NotInspected] = set()
    notes: set[Note] = set()
    options = profile.options.get(case.check.id, {})
    asked = chain.from_iterable(_ask(case, subject, options) for subject in case.subjects)
    for finding in map(show, chain(case.unread, asked)):
        if isinstance(finding, NotInspected) and finding.too_large:
            found.add(_too_large(finding))
        elif isinstance(finding, NotInspected):
            not_inspected.add(finding)
        elif isinstance(finding, Note):
            notes.add(finding)
        else:
            found.add(finding)
    waivers = profile.waivers(case.check.id, case.package_file_name, *case.names)
    stale = () if not_inspected else find_stale(waivers, found)
    problems = {each for each in _weigh(found, case.check, profile) if each.level is not Level.OFF}
    accepted = tuple(accept(problems, waivers, today))
    remaining = sorted(problems - {item.problem for item in accepted})
    expired = tuple(find_expired(waivers, remaining, today))
    remaining += [*_weigh(stale, case.check, profile), *expired]
    verdict = Verdict(
        check=case.check.id,
        family=case.check.family,
        place=case.place,
        package=case.package_file_name,
        level=profile.level_of(case.check.id, "", case.check.level),
        inspected=len(case.subjects),
        problems=tuple(each for each in remaining if each.level is Level.ERROR),
        warnings=tuple(each for each in remaining if each.level is Level.WARNING),
        accepted=accepted,
        not_inspected=tuple(sorted(not_inspected)),
        notes=tuple(sorted(notes)),
    )
    return replace(verdict, outcome=_sum_up(verdict))


def _sum_up(verdict: Verdict) -> Outcome:
    if verdict.problems:
        return Outcome.FAILED
    if verdict.not_inspected:
        return Outcome.NOT_INSPECTED
    if verdict.accepted:
        return Outcome.ACCEPTED
    return Outcome.WARNED if verdict.warnings else Outcome.PASSED


class _Shown:
    """Shows findings as users know them: paths in site-packages count from there.

    A check names a place of the package as the facts do; any other text, such as an archive's own
    name for a member, stays what it is.
    """

    def __init__(self, package: Package, place: str) -> None:
        self._package, self._place = package, place

    def show(self, finding: Problem | NotInspected | Note) -> Problem | NotInspected | Note:
        """The finding with the path that reports show and waivers match, and its place."""
        if self._place:
            finding = replace(finding, sentence=f"{finding.sentence} [{self._place}]")
        path, layout = finding.path, self._package.layout
        given = path.startswith("wheel:")
        if given or layout.inside(path) is not None or path in self._outside:
            return replace(finding, path=layout.shorten_label(path))
        return finding

    @cached_property
    def _outside(self) -> frozenset[str]:
        """The places of the package that lie outside of site-packages."""
        package, inside = self._package, self._package.layout.inside
        groups = (package.members, package.objects, package.malformed, package.unread)
        return frozenset(
            item.path for group in groups for item in group if inside(item.path) is None
        )


def _weigh(problems: Iterable[Problem], check: Check[Any], profile: Profile) -> Iterator[Problem]:
    """Each with the level that counts: the profile's, else the milder of its and its check's."""
    for problem in problems:
        own = check.level.milder(problem.level)
        level = profile.level_of(check.id, problem.path, own)
        yield problem if level is problem.level else replace(problem, level=level)


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
        why = {"too_large": isinstance(error, TooLarge), "by_host": isinstance(error, HostUnfit)}
        yield NotInspected(path=_encodable(path), sentence=str(error), **why)
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
    path, sentence = _encodable(finding.path), _encodable(finding.sentence)
    return replace(finding, path=path, sentence=sentence)


def _encodable(text: str) -> str:
    """The text with escapes for halves of characters, which an exception's text may hold."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _texts(finding: Finding) -> Iterator[bool]:
    """Whether each part of a finding is a text or a level, and the sentence says something."""
    if isinstance(finding, str):
        yield bool(finding)
    else:
        yield isinstance(finding.path, str)
        yield isinstance(finding.sentence, str) and bool(finding.sentence)
        if isinstance(finding, Problem):
            yield isinstance(finding.level, Level) and isinstance(finding.cause, str)
            yield isinstance(finding.command, str)
