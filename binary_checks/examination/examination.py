"""One package under examination: its facts, the checks asked for, and their verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from binary_checks import objects
from binary_checks.declaring import Check
from binary_checks.errors import GatherError, PackageError
from binary_checks.examination.facts import Facts
from binary_checks.examination.judging import (
    Case,
    Verdict,
    applicable_formats,
    fail_unreadable,
    judge_case,
    prepare,
    surveys,
    unreachable,
    unreadable,
)
from binary_checks.lines import one_line
from binary_checks.model import Package
from binary_checks.model.protocols import Preview, Reading, Source
from binary_checks.model.published import Release
from binary_checks.model.run_results import UNREADABLE

_Fact = TypeVar("_Fact")


class ReadingAhead:
    """How many packages of a run are read when their checks are collected.

    Their facts are in memory until they are judged, so it is few of them; always the first one,
    for the facts of one package are in memory at any time.
    """

    def __init__(self, packages: int = 32) -> None:
        self._packages = packages
        self._file_bytes = 128 << 20
        self._kept_bytes = 32 << 20
        self._first = packages > 0

    def admits(self, path: Path) -> bool:
        """Whether the package may be read now; where it may, it is counted."""
        self._packages -= 1
        self._file_bytes -= path.stat().st_size if path.is_file() else 0
        first, self._first = self._first, False
        return first or (self._packages >= 0 and min(self._file_bytes, self._kept_bytes) >= 0)

    def charge(self, reading: Reading) -> None:
        """Count what was kept of a package."""
        self._kept_bytes -= reading.kept.size


class Examination:
    """All that a run knows of one package; its facts are gathered when they are asked for."""

    def __init__(
        self,
        facts: Facts,
        *,
        spelled: str,
        asked: frozenset[str] = frozenset(),
        ahead: ReadingAhead | None = None,
    ) -> None:
        """``ahead`` says whether the package is read to tell which checks apply to it.

        Else it is looked at for that, and read when it is judged. None: it is the only one.
        """
        self.facts = facts
        self._ahead = ahead or ReadingAhead()
        self.spelled = spelled  # the name of its node, in the characters of the file's name
        self.node = one_line(spelled)  # the same in characters that may be shown, for reports
        self.asked = asked  # the checks that the user named; none is all
        self._reported_unreadable = False

    @property
    def source(self) -> Source:
        """Where the package comes from."""
        return self.facts.source

    @property
    def file_name(self) -> str:
        """The package in the lines that are printed of it."""
        return self.source.label

    @property
    def checks(self) -> tuple[Check[Any], ...]:
        """The checks that are to judge it, where they apply."""
        bare = {name.partition("[")[0] for name in self.asked}  # without the place
        return tuple(each for each in self.facts.settings.checks if not bare or each.id in bare)

    def get(self, kind: type[_Fact]) -> _Fact:
        """The fact of that class, ``Linkage`` for example; gathered once.

        Raises NotApplicable when the package has no such fact, Unavailable when it cannot be
        known here, PackageError when the package cannot be read, GatherError when gathering broke.
        """
        return self.facts.get(kind)

    @property
    def unjudged(self) -> str:
        """Why none of its native code could be judged; "" where some was, or there is none."""
        return self.facts.unjudged

    def applicable_checks(
        self, checks: Iterable[Check[Any]] | None = None
    ) -> tuple[Check[Any], ...]:
        """The checks that fit the package's kind and its formats, the quick ones first.

        Of the given ones, or of those that are to judge it. Raises PackageError or GatherError
        where the package cannot be looked at.
        """
        wanted = self.checks if checks is None else checks
        chosen = [check for check in wanted if self._may_judge(check)]
        # All that needs no download comes first: what it finds is known in a second.
        chosen.sort(key=lambda check: not surveys(check))
        if all(map(surveys, chosen)):
            return tuple(chosen)
        preview = self._look()
        return tuple(check for check in chosen if surveys(check) or _fits(check, preview))

    def _look(self) -> Preview:
        """Which kind the package is, and the formats of its objects."""
        if self.facts.has_gathered(Reading):
            return self.facts.get(Reading).preview
        if self.source.remote() is None and self._ahead.admits(self.source.path):
            with suppress(Exception):  # which the first check reports that needs the package
                reading = self.facts.get(Reading)
                self._ahead.charge(reading)
                return reading.preview
        return self.source.preview(objects)

    def _may_judge(self, check: Check[Any]) -> bool:
        """Whether the source can have what a survey judges; any other kind of check may have."""
        if not surveys(check):
            return not self.source.parts()
        of_release = surveys(check, Release)
        return bool(self.source.parts() if of_release else self.source.remote())

    def prepare(self, check: Check[Any], place: str = "") -> Case:
        """Gather what the check asks for, in the place of that label where there are several."""
        return prepare(check, self._facts_in(place))

    def judge(self, case: Case) -> Verdict:
        """Return the verdict of a check, whatever came of it.

        Of a package that cannot be read, the first verdict is a failure with the reason
        `UNREADABLE`; the later ones are that nothing was inspected.
        """
        verdict = judge_case(case, self.facts.settings)
        if isinstance(verdict.error, PackageError) and not self._reported_unreadable:
            self._reported_unreadable = True
            verdict = fail_unreadable(verdict, verdict.error)
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
    """Yield the verdict of every check that may apply to the package; never stops at the first.

    Without ``checks``, those that the profile and the user select judge it.
    A package that cannot be read has one verdict, `UNREADABLE`, before those of its checks. The
    outcome is ``error`` where the network or this machine broke, ``broken`` where a check did:
    nothing is raised for it.
    """
    try:
        chosen = examination.applicable_checks(checks)
    except PackageError as error:
        yield unreadable(examination.file_name, error)
        return
    except GatherError as error:
        yield unreachable(examination.file_name, error)
        return
    for check in chosen:
        verdict = examination.judge(examination.prepare(check))
        if verdict.reason == UNREADABLE:
            verdict = replace(verdict, check=UNREADABLE)
        yield verdict
