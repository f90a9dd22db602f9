"""The nodes of pytest: a package is a file, a check an item in it, a verdict the item's outcome."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from binary_checks.declaring import Check
from binary_checks.errors import CheckError, GatherError, PackageError
from binary_checks.examination.examination import Examination
from binary_checks.examination.judging import Case, Verdict, unreachable, unreadable
from binary_checks.model import NATIVE_FAMILIES, UNREADABLE, Entry, Level, Outcome
from binary_checks.plugin.failures import (
    ProblemsAccepted,
    ProblemsFound,
    describe,
    plain_failure,
    usage_error,
)
from binary_checks.plugin.session import SESSION, Session
from binary_checks.reports.explanation import advice, read_documentation
from binary_checks.safe_text import cut, one_line


class PackageFile(pytest.File):
    """A package; its items are the checks that apply to it."""

    # seconds of installing already counted, which are not part of a check's duration
    installing = 0.0

    def __init__(self, *, examination: Examination, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.examination = examination

    def collect(self) -> Iterator[pytest.Item]:
        """Yield an item for each check, or the single item ``unreadable-package``."""
        try:
            checks = self.examination.applicable_checks()
        except PackageError as error:
            verdict = unreadable(self.examination.file_name, error)
            yield UnreadPackage.from_parent(self, name=UNREADABLE, verdict=verdict)
            return
        except (CheckError, GatherError) as error:
            verdict = unreachable(self.examination.file_name, error)
            yield UnreadPackage.from_parent(self, name=UNREADABLE, verdict=verdict)
            return
        for check in checks:
            yield from self._make_items(check)

    def _make_items(self, check: Check[Any]) -> Iterator[CheckItem]:
        """Yield one item, or one for each of several places if the check runs the package."""
        asked = self.examination.asked
        places = self.examination.facts.in_places if check.differs_by_place else ()
        for label in tuple(places) or ("",):
            name = f"{check.id}[{label}]" if label else check.id
            if not asked or not asked.isdisjoint({check.id, name}):
                yield CheckItem.from_parent(self, name=name, check=check, place=label)


def collect_package(session: pytest.Session, node: str, examination: Examination) -> list[Any]:
    """Return the items of one package. Raises pytest.UsageError for an unknown ``x.whl::name``.

    A broken package has one item, whichever checks were named.
    """
    path = examination.source.path
    package = PackageFile.from_parent(session, path=path, nodeid=node, examination=examination)
    items = list(session.genitems(package))
    names = {name for item in items for name in (item.name, item.name.partition("[")[0])}
    if UNREADABLE not in names and (missing := sorted(examination.asked - names)):
        raise usage_error(f"not found: {examination.node}::{missing[0]}: it does not apply")
    return items


class PackageItem(pytest.Item):
    """An item of a package, which translates a verdict into an outcome of pytest."""

    family = "contents"
    level = Level.ERROR  # level of problems without their own level
    seconds = 0.0  # duration of the item itself until now
    place = ""  # label of the place, if the run has several places
    case: Case | None = None  # set by setup: the check with its facts
    verdict: Verdict | None = None  # set when the verdict is known

    @property
    def package(self) -> PackageFile:
        """Return the package that the item judges."""
        assert isinstance(self.parent, PackageFile)
        return self.parent

    @property
    def file_name(self) -> str:
        """Return the name of the package in printed lines."""
        return self.package.examination.file_name

    @property
    def package_node(self) -> str:
        """Return the id of the package in reports."""
        return self.package.examination.node

    def explain_unjudged(self, known: str) -> str:
        """Return why none of the package's native code could be judged, or "".

        ``known`` is the reason that an earlier check found, or "". If there is none, only a check
        that judges native code looks for a reason. Other checks may request a loader, too, but a
        run that checks only metadata promises nothing about native code.
        """
        looked = known or self.family in NATIVE_FAMILIES
        return self.package.examination.unjudged if looked else ""

    @property
    def state(self) -> Session:
        """Return the plugin's data for this run."""
        return self.config.stash[SESSION]

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the package file, in a form that is safe to show, and the check."""
        return Path(one_line(str(self.path))), 0, self.name

    def repr_failure(
        self,
        excinfo: pytest.ExceptionInfo[BaseException],
        style: Any = None,  # noqa: ARG002 - in no style is text from a package shown as it is
    ) -> Any:
        """Return the failure in the form in which it is shown."""
        return self.plain_failure(excinfo.value)

    def plain_failure(self, error: BaseException) -> Any:
        """Return the failure; ``--full-trace`` adds a traceback for authors of checks."""
        traces, program = self.config.option.fulltrace, self.state.settings.program
        return plain_failure(error, self.name, self.file_name, program, traces=traces)

    def make_entry(self, error: BaseException | None) -> Entry | None:
        """Return the entry for the ledger: the verdict, or a bug of ours if there is no verdict."""
        check = self.name.partition("[")[0]
        own: dict[str, Any] = {"check": check, "family": self.family, "level": self.level}
        if self.verdict is not None:
            return Entry(**{**self.verdict.result(), **own})
        if error is None:
            return None
        reason = one_line(f"{type(error).__name__}: {error}")
        return Entry(**own, place=self.place, outcome=Outcome.BROKEN, reason=reason)

    def translate(self, verdict: Verdict) -> None:
        """Raise the exception by which pytest reports the outcome.

        Raises ProblemsFound, ProblemsAccepted, pytest's Skipped, or the error that led to the
        outcome.
        """
        self.verdict = verdict
        if verdict.outcome is Outcome.FAILED:
            raise ProblemsFound(describe(verdict, self.advice(), self.state.settings.program))
        if verdict.outcome in (Outcome.NOT_APPLICABLE, Outcome.NOT_INSPECTED):
            pytest.skip(cut(one_line(f"{verdict.outcome.value}: {verdict.reason}")))
        if verdict.outcome is Outcome.ACCEPTED:
            reasons = "; ".join(dict.fromkeys(item.reason for item in verdict.accepted))
            raise ProblemsAccepted(one_line(f"{len(verdict.accepted):,} accepted: {reasons}"))
        if verdict.outcome in (Outcome.ERROR, Outcome.BROKEN):
            error = CheckError if verdict.outcome is Outcome.BROKEN else GatherError
            raise verdict.error or error(verdict.reason)

    def advice(self) -> tuple[str, ...]:
        """Return the lines of advice that are printed below the problems."""
        return ()

    def forget(self) -> None:
        """Release the judged facts: the items of a thousand packages exist until the end."""
        self.verdict = self.case = None


class UnreadPackage(PackageItem):
    """A package that cannot be read or fetched, so that no check can begin."""

    def __init__(self, *, verdict: Verdict, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.known = verdict

    def setup(self) -> None:
        """Report an error if the network, an index or the disk failed."""
        if self.known.outcome is not Outcome.FAILED:
            self.translate(self.known)

    def runtest(self) -> None:
        """Fail if the package is broken."""
        self.translate(self.known)


class CheckItem(PackageItem):
    """One check on one package: setup gathers facts, runtest judges them."""

    def __init__(self, *, check: Check[Any], place: str, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.check = check
        self.place = place
        self.family = check.family
        self.level = self.state.profile.level_of(check.id, "", check.level)
        self.add_marker(check.family)

    def setup(self) -> None:
        """Gather facts: skip if the check does not apply, raise an error if gathering failed."""
        examination = self.package.examination
        self.case = examination.prepare(self.check, self.place)
        if self.case.error is not None:
            self.verdict = examination.judge(self.case)
            if self.verdict.outcome is not Outcome.FAILED:  # runtest raises the failures
                self.translate(self.verdict)

    def runtest(self) -> None:
        """Judge the facts."""
        assert self.case is not None
        self.translate(self.verdict or self.package.examination.judge(self.case))

    def advice(self) -> tuple[str, ...]:
        """Return the documentation's advice, or nothing if the package cannot be read."""
        unread = self.verdict is not None and self.verdict.reason == UNREADABLE
        problems = self.verdict.problems if self.verdict else ()
        return () if unread else tuple(advice(read_documentation(self.check), problems))
