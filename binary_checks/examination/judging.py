"""Judging one package with one check: a verdict follows from any result or error."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

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
from binary_checks.examination.facts import Facts, first_of
from binary_checks.examination.settings import RunSettings
from binary_checks.knowledge.tags import may_load
from binary_checks.model import (
    NOT_SEEN,
    UNREADABLE,
    CheckResult,
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
    Survey,
    UnreadObject,
    object_kinds,
)
from binary_checks.options import Program
from binary_checks.profile import Identity, Profile, accept, find_expired, find_stale
from binary_checks.safe_text import one_line
from binary_checks.watchdog import Watchdog
from binary_checks.wording.problem_lines import problem_lines, summarise_gap

_F = TypeVar("_F", Problem, NotInspected, Note)
_TOO_LARGE = ("too large",)
"""The facts of a problem with a part that is too large to inspect."""
_RAISE = "Raise limit_factor in the profile, or accept the problem there."


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A check with all facts that it needs to judge one package, or the error that prevents it."""

    check: Check[Any]
    package_file_name: str
    # the package by which paths are shown
    package: Package = field(default_factory=lambda: Package(path=Path()))
    names: tuple[str, ...] = ()  # other names by which profiles may know the package
    place: str = ""  # label of the place if there are several; findings name it
    subjects: tuple[Any, ...] = ()  # the check is called for each of them
    evidence: tuple[Any, ...] = ()  # further positional arguments, the same for every subject
    unread: tuple[NotInspected, ...] = ()  # object files that should have been subjects
    error: BinaryChecksError | None = None  # the error that gathering raised
    watchdog: Watchdog = field(default_factory=Watchdog)


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict(CheckResult):
    """The result of one check on one package."""

    package: str  # file name
    outcome: Outcome = Outcome.PASSED
    # the error that led to the outcome
    error: BinaryChecksError | None = field(default=None, compare=False)

    def lines(self) -> Iterator[str]:
        """Yield the unaccepted errors as complete lines, one for each cause."""
        return problem_lines(self.shown_check, self.package, self.problems)


def prepare(check: Check[Any], facts: Facts) -> Case:
    """Gather the facts that the check requests; if gathering fails, the case keeps the error."""
    try:
        subjects, evidence, unread = _gather(check, facts)
        shown = _find_shown(check, subjects, facts)
    except BinaryChecksError as error:
        return Case(check=check, package_file_name=facts.label, place=facts.place, error=error)
    return Case(
        watchdog=facts.watchdog,
        check=check,
        package_file_name=facts.label,
        place=facts.place,
        package=shown,
        names=facts.wheel_names,
        subjects=subjects,
        evidence=evidence,
        unread=unread,
    )


def _gather(
    check: Check[Any], facts: Facts
) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[NotInspected, ...]]:
    """Return subjects, evidence, and the unreadable files that should have been subjects."""
    try:
        subjects: tuple[Any, ...]
        unread: tuple[NotInspected, ...] = ()
        if check.judges_objects:
            package = facts.get(Package)
            subjects, unread = _subjects(check, package), _unread(check, package)
        else:
            subjects = (first_of(check.subjects, facts),)
        return subjects, tuple(first_of(kinds, facts) for kinds in check.facts[1:]), unread
    except TooLarge as error:
        return (), (), (NotInspected(sentence=str(error), too_large=True),)


def _find_shown(check: Check[Any], subjects: tuple[Any, ...], facts: Facts) -> Package:
    """Return the package whose layout shortens paths; read it only if the check needs it."""
    if not surveys(check):
        return facts.get(Package)
    return next((each.shown for each in subjects), Package(path=facts.path))


def surveys(check: Check[Any], kind: type[Survey] = Survey) -> bool:
    """Return whether the check judges facts that are known without reading the whole package."""
    return all(issubclass(subject, kind) for subject in check.subjects)


def applicable_formats(check: Check[Any]) -> frozenset[Format] | None:
    """Return the object formats that the check judges; None if it does not judge objects."""
    if not check.judges_objects:
        return None
    if ObjectFile in check.subjects:
        return frozenset(kind.format for kind in object_kinds().values())
    return frozenset(kind.format for kind in check.subjects if issubclass(kind, ObjectFile))


def _subjects(check: Check[Any], package: Package) -> tuple[ObjectFile, ...]:
    """Return the objects to judge.

    A check of certain formats leaves out the objects that no claimed system loads.
    """
    found = tuple(item for item in package.objects if isinstance(item, check.subjects))
    subjects = tuple(
        item
        for item in found
        if ObjectFile in check.subjects or may_load(package.claims.systems, item.format)
    )
    unread = _unread(check, package)
    if not subjects and unread and not any(item.too_large for item in unread):
        raise Unavailable(f"none of {len(unread)} objects could be read: {unread[0].sentence}")
    if not subjects and not unread:
        formats = applicable_formats(check) or frozenset()
        where = "that its systems load" if found else "in the package"
        raise NotApplicable(f"no {' or '.join(sorted(formats))} object {where}")
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


def judge_case(case: Case, settings: RunSettings) -> Verdict:
    """Call the check on every subject, and conclude; never stop at the first problem.

    Only this function turns an exception into an outcome; it raises none of our exceptions.
    """
    profile = settings.profile
    level = profile.level_of(case.check.id, "", case.check.level)
    try:
        if case.error is not None:
            raise case.error.with_traceback(None)
        verdict = case.watchdog.call(
            f"the check {case.check.id}", _judge_findings, case, profile, settings
        )
    except TooLarge as error:
        gap = NotInspected(sentence=str(error), too_large=True)
        verdict = _judge_findings(replace(case, subjects=(), unread=(gap,)), profile, settings)
    except BinaryChecksError as error:
        verdict = _conclude_by_error(case, error)
    verdict = replace(_name_options(verdict, settings.program), level=level)
    if verdict.outcome is Outcome.NOT_INSPECTED and case.check.family in settings.required:
        return _fail_required(verdict)
    return verdict


def _name_options(verdict: Verdict, program: Program) -> Verdict:
    """Return the verdict with our options named as in the program that the user called.

    Known problems were matched earlier: they accept the same problems in either program.
    """

    def name(findings: tuple[_F, ...]) -> tuple[_F, ...]:
        return tuple(
            replace(each, sentence=program.name_options(each.sentence)) for each in findings
        )

    return replace(
        verdict,
        reason=program.name_options(verdict.reason),
        problems=name(verdict.problems),
        warnings=name(verdict.warnings),
        accepted=tuple(
            replace(each, problem=name((each.problem,))[0]) for each in verdict.accepted
        ),
        not_inspected=name(verdict.not_inspected),
        notes=name(verdict.notes),
    )


_OUTCOMES: tuple[tuple[type[BinaryChecksError], Outcome], ...] = (
    (NotApplicable, Outcome.NOT_APPLICABLE),
    (Unavailable, Outcome.NOT_INSPECTED),
    (PackageError, Outcome.NOT_INSPECTED),
    (CheckError, Outcome.BROKEN),
    (GatherError, Outcome.ERROR),
)


def _conclude_by_error(case: Case, error: BinaryChecksError) -> Verdict:
    """Return the verdict of a check that could not judge because of an error."""
    reason = str(error)
    if isinstance(error, PackageError):
        reason = f"unreadable package: {shorten_error(case.package_file_name, error)}"
    elif type(error) is CheckError and not reason.startswith(f"{case.check.id} "):
        reason = f"{case.check.id}: {reason}"  # of a fact that several checks may need
    by_host = isinstance(error, HostUnfit)
    return Verdict(
        check=case.check.id,
        family=case.check.family,
        place=case.place,
        package=case.package_file_name,
        outcome=next((end for kind, end in _OUTCOMES if isinstance(error, kind)), Outcome.BROKEN),
        reason=one_line(reason),
        not_inspected=(NotInspected(sentence=reason, by_host=True),) if by_host else (),
        error=error,
    )


def _fail_required(verdict: Verdict) -> Verdict:
    """Return a failed verdict for a required check that could not inspect everything.

    If the host is the only cause, the outcome is an error of the host: try again.
    """
    if verdict.is_gap_of_host:
        return replace(verdict, outcome=Outcome.ERROR, error=GatherError(verdict.reason))
    sentence = f"not inspected, but {verdict.family} is required: {verdict.reason}"
    problem = Problem(sentence=sentence, cause=f"{NOT_SEEN}{verdict.reason}")
    return replace(verdict, outcome=Outcome.FAILED, problems=(problem,))


def unreadable(package_file_name: str, error: PackageError) -> Verdict:
    """Return the verdict on a package that cannot be read as a whole."""
    return Verdict(
        check=UNREADABLE,
        family="contents",
        package=package_file_name,
        outcome=Outcome.FAILED,
        reason=UNREADABLE,
        problems=(Problem(sentence=shorten_error(package_file_name, error)),),
    )


def unreachable(package_file_name: str, error: CheckError | GatherError) -> Verdict:
    """Return the verdict on a package that the network, an index or the disk did not provide.

    A CheckError is the fault of a kind of package that the project added.
    """
    return Verdict(
        check=UNREADABLE,
        family="contents",
        package=package_file_name,
        outcome=Outcome.BROKEN if isinstance(error, CheckError) else Outcome.ERROR,
        reason=str(error),
        error=error,
    )


def shorten_error(package_file_name: str, error: PackageError) -> str:
    """Return the reason without the file name, which already precedes it in its line."""
    return str(error).removeprefix(one_line(f"{package_file_name}: "))


def _judge_findings(case: Case, profile: Profile, settings: RunSettings) -> Verdict:
    """Sort a check's findings by kind. Raises CheckError if the check itself fails."""
    show = _Shown(case.package, case.place).show
    found: set[Problem] = set()
    not_inspected: set[NotInspected] = set()
    notes: set[Note] = set()
    options = profile.options.get(case.check.id, {})
    asked = chain.from_iterable(_call_check(case, subject, options) for subject in case.subjects)
    for finding in map(show, chain(case.unread, asked)):
        if isinstance(finding, NotInspected):
            not_inspected.add(finding)
        elif isinstance(finding, Note):
            notes.add(finding)
        else:
            found.add(finding)
    beyond = {each for each in not_inspected if each.too_large}
    found |= {_too_large(each) for each in beyond}
    found = _number_equal_facts(found)
    waivers = profile.waivers(case.check.id, case.package_file_name, *case.names)
    stale = () if not_inspected else find_stale(waivers, found)
    not_inspected -= beyond
    problems = {
        each for each in _set_levels(found, case.check, profile) if each.level is not Level.OFF
    }
    accepted = tuple(accept(problems, waivers, settings.today))
    remaining = sorted(problems - {item.problem for item in accepted})
    expired = tuple(find_expired(waivers, remaining, settings.today))
    remaining += [*_set_levels(stale, case.check, profile), *expired]
    verdict = Verdict(
        check=case.check.id,
        family=case.check.family,
        place=case.place,
        package=case.package_file_name,
        inspected=len(case.subjects),
        problems=tuple(each for each in remaining if each.level is Level.ERROR),
        warnings=tuple(each for each in remaining if each.level is Level.WARNING),
        accepted=accepted,
        not_inspected=tuple(sorted(not_inspected)),
        notes=tuple(sorted(notes)),
    )
    outcome = _sum_up(verdict)
    if outcome is not Outcome.NOT_INSPECTED:
        return replace(verdict, outcome=outcome)
    own = tuple(each for each in verdict.not_inspected if not each.by_host)
    total = verdict.inspected + len(case.unread)
    counted = f" ({verdict.inspected} of {total} objects read)" if case.unread else ""
    return replace(
        verdict, outcome=outcome, reason=summarise_gap(own or verdict.not_inspected) + counted
    )


def _number_equal_facts(problems: Set[Problem]) -> set[Problem]:
    """Return the problems; if facts do not distinguish two of them, add a number to their facts.

    An entry in a list of known problems thus accepts one problem, and not a second one with the
    same facts. Sentences would also distinguish the problems, but only until they are reworded.
    """
    counted: dict[Identity, list[str]] = {}
    distinct = set()
    for each in sorted(problems):
        sentences = counted.setdefault((each.path, each.facts), [])
        if each.sentence not in sentences[-1:]:
            sentences.append(each.sentence)
        number = (f"#{len(sentences)}",) if len(sentences) > 1 else ()
        distinct.add(replace(each, facts=(*each.facts, *number)))
    return distinct


def _sum_up(verdict: Verdict) -> Outcome:
    if verdict.problems:
        return Outcome.FAILED
    if verdict.not_inspected:
        return Outcome.NOT_INSPECTED
    if verdict.accepted:
        return Outcome.ACCEPTED
    return Outcome.WARNED if verdict.warnings else Outcome.PASSED


class _Shown:
    """Findings with the paths that users know, which are relative to site-packages.

    Checks name paths in the package as facts do; any other text, such as a name inside an archive,
    is left unchanged.
    """

    def __init__(self, package: Package, place: str) -> None:
        self._package, self._place = package, place

    def show(self, finding: Problem | NotInspected | Note) -> Problem | NotInspected | Note:
        """Return the finding with its place, and the path as reports and known problems use it."""
        if self._place:
            finding = replace(finding, sentence=f"{finding.sentence} [{self._place}]")
            if isinstance(finding, Problem):
                finding = replace(finding, facts=(*finding.facts, self._place))
        path, layout = finding.path, self._package.layout
        given = path.startswith("wheel:")
        if given or layout.inside(path) is not None or path in self._outside:
            return replace(finding, path=layout.shorten_label(path))
        return finding

    @cached_property
    def _outside(self) -> frozenset[str]:
        """Return the paths of the package outside of site-packages."""
        package, inside = self._package, self._package.layout.inside
        groups = (package.members, package.objects, package.malformed, package.unread)
        return frozenset(
            item.path for group in groups for item in group if inside(item.path) is None
        )


def _set_levels(
    problems: Iterable[Problem], check: Check[Any], profile: Profile
) -> Iterator[Problem]:
    """Yield problems with the profile's level, or the lower of their own and the check's level."""
    for problem in problems:
        # too large is never less than an error, even of a warning's check
        own = (
            problem.level
            if problem.facts[:1] == _TOO_LARGE
            else check.level.less_severe(problem.level)
        )
        level = profile.level_of(check.id, problem.path, own)
        yield problem if level is problem.level else replace(problem, level=level)


def _too_large(gap: NotInspected) -> Problem:
    """Return a problem for a part too large to inspect; ten million symbols once hid faults."""
    sentence = f"too large to inspect: {gap.sentence}"
    cause = "" if gap.path else gap.sentence  # a fact that several checks need
    return Problem(path=gap.path, sentence=sentence, cause=cause, facts=_TOO_LARGE, fix=_RAISE)


def _call_check(
    case: Case, subject: Any, options: Mapping[str, Any]
) -> Iterator[Problem | NotInspected | Note]:
    """Yield the check's findings on one subject, validated."""
    path, name = subject.path if isinstance(subject, ObjectFile) else "", case.check.id
    has_found = False
    try:
        findings = case.check(subject, *case.evidence, **options)
        if isinstance(findings, str) or not isinstance(findings, Iterable):
            kind = type(findings).__name__
            raise CheckError(f"{name} returned {kind}, not an iterator of findings: use yield")
        for finding in findings:
            if not isinstance(finding, Finding) or not all(_texts(finding)):
                raise CheckError(f"{name} yields {finding!r:.80}, which is not a finding")
            has_found = True
            yield _complete(finding, path)
    except NotApplicable:
        if not has_found:  # what it found before counts: a gap, or a problem
            raise
    except Unavailable as error:  # the symbols of one object may be unknown
        why = {"too_large": isinstance(error, TooLarge), "by_host": isinstance(error, HostUnfit)}
        yield NotInspected(path=_encodable(path), sentence=str(error), **why)
    except (BinaryChecksError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        *_, place = traceback.extract_tb(error.__traceback__)
        where = f"{Path(place.filename).name}:{place.lineno}"
        raise CheckError(f"{name} broke: {type(error).__name__}: {error} ({where})") from error


def _complete(finding: Finding, path: str) -> Problem | NotInspected | Note:
    """Return the finding with the judged object's path, in characters that any file can hold."""
    if isinstance(finding, str):
        finding = Problem(path=path, sentence=finding)
    elif isinstance(finding, (NotInspected, Note)):
        finding = replace(finding, path=finding.path or path)
    path, sentence = _encodable(finding.path), _encodable(finding.sentence)
    if isinstance(finding, Problem):
        facts = tuple(map(_encodable, finding.facts))
        return replace(finding, path=path, sentence=sentence, facts=facts)
    return replace(finding, path=path, sentence=sentence)


def _encodable(text: str) -> str:
    """Escape lone surrogates, which the text of an exception may contain."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _texts(finding: Finding) -> Iterator[bool]:
    """Yield whether each part of a finding has the right type, and the sentence has text."""
    if isinstance(finding, str):
        yield bool(finding)
    else:
        yield isinstance(finding.path, str)
        yield isinstance(finding.sentence, str) and bool(finding.sentence)
        if isinstance(finding, Problem):
            yield isinstance(finding.level, Level) and isinstance(finding.cause, str)
            yield isinstance(finding.facts, tuple)
            yield all(isinstance(each, str) for each in finding.facts)
            yield isinstance(finding.command, str)
