"""One package under examination: its facts, the requested checks, and their verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from binary_checks import objects
from binary_checks.declaring import Check
from binary_checks.errors import CheckError, GatherError, PackageError
from binary_checks.examination.facts import Facts
from binary_checks.examination.judging import (
    Case,
    Verdict,
    applicable_formats,
    judge_case,
    prepare,
    surveys,
    unreachable,
    unreadable,
)
from binary_checks.model import UNREADABLE, Outcome, Package, Preview, Reading, Release, Source
from binary_checks.safe_text import one_line

_Fact = TypeVar("_Fact")


class ReadingAhead:
    """A count of the packages of a run that are read while their checks are collected.

    Facts of these packages stay in memory until the packages are judged, so the number is small.
    The first package may always be read, as the facts of one package are in memory at any time.
    """

    def __init__(self, packages: int = 32) -> None:
        self._packages = packages
        self._file_bytes = 128 << 20
        self._kept_bytes = 32 << 20
        self._first = packages > 0

    def admits(self, path: Path) -> bool:
        """Return whether the package may be read now, and count it if it may."""
        self._packages -= 1
        self._file_bytes -= path.stat().st_size if path.is_file() else 0
        first, self._first = self._first, False
        return first or (self._packages >= 0 and min(self._file_bytes, self._kept_bytes) >= 0)

    def charge(self, reading: Reading) -> None:
        """Count the bytes of a package's contents that were kept in memory."""
        self._kept_bytes -= reading.kept.size


class Examination:
    """All facts that a run knows about one package; facts are gathered when they are requested."""

    def __init__(
        self,
        facts: Facts,
        *,
        spelled: str,
        asked: frozenset[str] = frozenset(),
        ahead: ReadingAhead | None = None,
    ) -> None:
        """Prepare the examination; nothing is read yet.

        ``ahead`` decides whether the package is read in full to determine which checks apply. If
        not, the package is previewed now, and read when it is judged. None means that there is no
        other package.
        """
        self.facts = facts
        self._ahead = ahead or ReadingAhead()
        self.spelled = spelled  # name of the node, with the file name's original characters
        self.node = one_line(spelled)  # the same name for reports, escaped for display
        self.asked = asked  # checks that the user named; empty for all
        self._reported_unreadable = False
        self.has_failed = False  # whether a check failed until now

    @property
    def source(self) -> Source:
        """Return where the package comes from."""
        return self.facts.source

    @property
    def file_name(self) -> str:
        """The name of the package in printed lines."""
        return self.source.label

    @property
    def checks(self) -> tuple[Check[Any], ...]:
        """Return the checks that judge the package if they apply."""
        bare = {name.partition("[")[0] for name in self.asked}  # names of checks without the place
        return tuple(each for each in self.facts.settings.checks if not bare or each.id in bare)

    def get(self, kind: type[_Fact]) -> _Fact:
        """Return the fact of a class, ``Linkage`` for example; it is gathered only once.

        Raises NotApplicable if the package has no such fact, Unavailable if it cannot be determined
        on this host, PackageError if the package cannot be read, GatherError if gathering failed.
        """
        return self.facts.get(kind)

    @property
    def unjudged(self) -> str:
        """Return why no native code could be judged, or "" if some was judged or none exists."""
        return self.facts.unjudged

    def applicable_checks(
        self, checks: Iterable[Check[Any]] | None = None
    ) -> tuple[Check[Any], ...]:
        """Return the checks that fit the package's kind and formats, the quick checks first.

        They are selected from the given checks, or from those that judge the package. Raises
        PackageError or GatherError if the package cannot be previewed.
        """
        wanted = self.checks if checks is None else checks
        chosen = [check for check in wanted if self._may_judge(check)]
        # Checks that need no download come first: their findings are known within a second.
        chosen.sort(key=lambda check: not surveys(check))
        if all(map(surveys, chosen)):
            return tuple(chosen)
        preview = self._look()
        return tuple(check for check in chosen if surveys(check) or _fits(check, preview))

    def _look(self) -> Preview:
        """Return the kind of the package, and the formats of its object files."""
        if self.facts.has_gathered(Reading):
            return self.facts.get(Reading).preview
        if self.source.remote() is None and self._ahead.admits(self.source.path):
            with suppress(Exception):  # the first check that needs the package reports it
                reading = self.facts.get(Reading)
                self._ahead.charge(reading)
                return reading.preview
        return self.source.preview(objects)

    def _may_judge(self, check: Check[Any]) -> bool:
        """Return whether the source has the facts that a survey judges; True for other checks."""
        if not surveys(check):
            return not self.source.parts()
        of_release = surveys(check, Release)
        return bool(self.source.parts() if of_release else self.source.remote())

    def prepare(self, check: Check[Any], place: str = "") -> Case:
        """Gather the facts that the check requests, in the place with this label.

        The label is "" unless there are several places.
        """
        return prepare(check, self._facts_in(place))

    def judge(self, case: Case) -> Verdict:
        """Return the verdict of a check, whatever its outcome.

        If a package cannot be read, the first verdict is a failure with the reason `UNREADABLE`;
        later ones report that nothing was inspected.
        """
        verdict = judge_case(case, self.facts.settings)
        if isinstance(verdict.error, PackageError) and not self._reported_unreadable:
            self._reported_unreadable = True
            problems = unreadable(verdict.package, verdict.error).problems
            verdict = replace(verdict, outcome=Outcome.FAILED, reason=UNREADABLE, problems=problems)
        self.has_failed |= verdict.outcome is Outcome.FAILED
        return replace(verdict, system=self._facts_in(case.place).system)

    def _facts_in(self, place: str) -> Facts:
        return self.facts.in_places.get(place, self.facts)


def _fits(check: Check[Any], preview: Preview) -> bool:
    kinds = [subject for subject in check.subjects if issubclass(subject, Package)]
    formats = applicable_formats(check)
    right = not kinds or any(issubclass(preview.kind, subject) for subject in kinds)
    return right and (formats is None or bool(formats & preview.formats))


def judge(
    examination: Examination, checks: Iterable[Check[Any]] | None = None
) -> Iterator[Verdict]:
    """Yield the verdict of every check that may apply to the package; never stop at the first.

    Without ``checks``, those selected by the profile and the user judge the package. For a package
    that cannot be read, a verdict `UNREADABLE` precedes those of its checks. No exception is raised
    for failures: the outcome is ``error`` if the network or this machine failed, and ``broken`` if
    a check did.
    """
    try:
        chosen = examination.applicable_checks(checks)
    except PackageError as error:
        yield unreadable(examination.file_name, error)
        return
    except (CheckError, GatherError) as error:
        yield unreachable(examination.file_name, error)
        return
    for check in chosen:
        verdict = examination.judge(examination.prepare(check))
        if verdict.reason == UNREADABLE:
            verdict = replace(verdict, check=UNREADABLE)
        yield verdict
