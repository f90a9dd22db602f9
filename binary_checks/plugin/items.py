"""The nodes: a package is a file, a check is an item in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import pytest

from binary_checks.declaring import Check
from binary_checks.errors import (
    CheckError,
    GatherError,
    HostUnfit,
    NotApplicable,
    PackageError,
    Unavailable,
)
from binary_checks.gather.examination import Examination
from binary_checks.gather.facts import Facts
from binary_checks.gather.placed_facts import PlacedFacts, place_facts
from binary_checks.judging import (
    Case,
    Verdict,
    applicable_checks,
    ended,
    judge_case,
    prepare,
    unreadable,
)
from binary_checks.lines import cut, one_line
from binary_checks.model import Entry, Level, Outcome, Problem
from binary_checks.model.outcomes import NOT_SEEN
from binary_checks.model.run_results import NATIVE_FAMILIES, UNREADABLE
from binary_checks.plugin.failures import (
    ProblemsAccepted,
    ProblemsFound,
    describe,
    misused,
    plain_failure,
)
from binary_checks.plugin.session import SESSION, Session
from binary_checks.reports.explanation import advice
from binary_checks.reports.family_table import gap


class PackageFile(pytest.File):
    """A package; its items are the checks that apply to it."""

    unreadable = False  # said already, by the first of its checks
    installing = 0.0  # seconds of its installation that no check is charged with

    def __init__(self, *, examination: Examination, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.examination = examination

    def collect(self) -> Iterator[pytest.Item]:
        """One item a check, or the single item ``unreadable-package``."""
        try:
            checks = applicable_checks(self.examination)
        except PackageError as error:
            verdict = unreadable(self.examination.file_name, error)
            yield UnreadablePackage.from_parent(self, name=UNREADABLE, verdict=verdict)
            return
        except GatherError as error:
            yield UnreachablePackage.from_parent(self, name=UNREADABLE, reason=error)
            return
        for check in checks:
            yield from self._spread(check)

    def _spread(self, check: Check[Any]) -> Iterator[CheckItem]:
        """One item, or where it runs the package in several places one for each."""
        places = tuple(self.placed) if check.runs_package else ()
        for label in places or ("",):
            name, asked = f"{check.id}[{label}]" if label else check.id, self.examination.asked
            if not asked or not asked.isdisjoint({check.id, name}):
                yield CheckItem.from_parent(self, name=name, check=check, place=label)

    @cached_property
    def placed(self) -> Mapping[str, PlacedFacts]:
        """Its facts in each of several places, by the place's label; empty where there is one."""
        return place_facts(self.examination.facts, self.config.stash[SESSION].placed)

    @property
    def ran_on(self) -> str:
        """The interpreters that it was installed for and ran on, each once."""
        every = (self.examination.facts, *self.placed.values())
        return " and ".join(dict.fromkeys(facts.ran_on for facts in every if facts.ran_on))

    @property
    def install_seconds(self) -> float:
        """What its installation has taken so far, in all places."""
        return sum(each.install_seconds for each in (self.examination.facts, *self.placed.values()))

    @property
    def roots(self) -> tuple[str, ...]:
        """The images that it ran in, each once, with the digests of their root file systems."""
        every = (self.examination.facts, *self.placed.values())
        return tuple(dict.fromkeys(facts.root for facts in every if facts.root))


def collect_package(session: pytest.Session, node: str, examination: Examination) -> list[Any]:
    """The items of one package. Raises pytest.UsageError for ``x.whl::name`` that is none.

    A package that is broken has one item, whatever was asked for.
    """
    path = examination.source.path
    package = PackageFile.from_parent(session, path=path, nodeid=node, examination=examination)
    items = list(session.genitems(package))
    names = {name for item in items for name in (item.name, item.name.partition("[")[0])}
    if UNREADABLE not in names and (missing := sorted(examination.asked - names)):
        raise misused(f"not found: {examination.node}::{missing[0]}: it does not apply")
    return items


class PackageItem(pytest.Item):
    """What the items of a package share."""

    entry: Entry | None = None  # what the run's ledger is told, once it is known
    family = "contents"
    level = Level.ERROR  # of its problems, where they say no other
    seconds = 0.0  # that it took so far
    place = ""  # the label of one of several places

    def forget(self) -> None:
        """Let go of what it judged: the items of a thousand packages stay until the end."""
        for name in ("entry", "case", "failure"):
            vars(self).pop(name, None)

    @property
    def package(self) -> PackageFile:
        """The package that it judges."""
        assert isinstance(self.parent, PackageFile)
        return self.parent

    @property
    def facts(self) -> Facts:
        """Its facts, in the place that this is about."""
        return self.package.placed.get(self.place, self.package.examination.facts)

    @property
    def file_name(self) -> str:
        """The package in the lines that are printed of it."""
        return self.package.examination.file_name

    @property
    def package_node(self) -> str:
        """What reports call the package."""
        return self.package.examination.node

    def explain_unjudged(self, known: str) -> str:
        """Return why none of the package's native code could be judged, as is ``known`` or not yet.

        Only a check that judges native code makes it known. Others may ask for a loader, too, but a
        run of metadata alone promises nothing of native code.
        """
        looked = known or self.family in NATIVE_FAMILIES
        return self.package.examination.unjudged if looked else ""

    @property
    def state(self) -> Session:
        """The plugin's knowledge of this run."""
        return self.config.stash[SESSION]

    def reportinfo(self) -> tuple[Path, int, str]:
        """The package file, as it may be shown, and the check."""
        return Path(one_line(str(self.path))), 0, self.name

    def repr_failure(
        self,
        excinfo: pytest.ExceptionInfo[BaseException],
        style: Any = None,  # noqa: ARG002 - in no style is text from a package shown as it is
    ) -> Any:
        """How it is shown."""
        return self.plain_failure(excinfo.value)

    def plain_failure(self, error: BaseException) -> Any:
        """With ``--full-trace`` whoever wrote a check that broke sees where it did."""
        return plain_failure(error, self.name, self.file_name, traces=self.config.option.fulltrace)

    def note(
        self,
        outcome: Outcome,
        family: str,
        *,
        reason: str = "",
        verdict: Verdict | None = None,
    ) -> None:
        """Say how it ended, for the reports."""
        known: dict[str, Any] = {} if verdict is None else verdict.result()
        check = self.name.partition("[")[0]
        known |= {"check": check, "family": family, "level": self.level}
        known |= {"place": self.facts.place, "system": self.facts.system}
        self.entry = Entry(**{**known, "outcome": outcome, "reason": reason})


class UnreadablePackage(PackageItem):
    """A package that cannot be read at all: always a failure."""

    def __init__(self, *, verdict: Verdict, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.verdict = verdict

    def runtest(self) -> None:
        """Fail with the reason."""
        self.note(Outcome.FAILED, self.verdict.family, reason=UNREADABLE, verdict=self.verdict)
        raise ProblemsFound(describe(self.verdict, ()))


class UnreachablePackage(PackageItem):
    """A package that could not be had: the network, an index or the disk broke."""

    def __init__(self, *, reason: GatherError, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.reason = reason

    def setup(self) -> None:
        """Err with the reason."""
        self.note(Outcome.ERROR, self.family, reason=str(self.reason))
        raise self.reason.with_traceback(None)

    def runtest(self) -> None:
        """It never comes to that."""


def _nothing_seen(check: Check[Any], package_file_name: str) -> Verdict:
    return Verdict(check=check.id, family=check.family, package=package_file_name, inspected=0)


class CheckItem(PackageItem):
    """One check on one package: setup gathers, runtest judges."""

    case: Case | None = None
    failure = ""  # a line known after setup already, which runtest raises

    def __init__(self, *, check: Check[Any], place: str, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.check = check
        self.place = place
        self.family = check.family
        self.level = self.state.profile.level_of(check.id, "", check.level)
        self.add_marker(check.family)

    def setup(self) -> None:
        """Gather the facts: skips when there is nothing to look at, errs when gathering broke."""
        try:
            self.case = prepare(self.check, self.facts)
        except NotApplicable as error:
            self._skip(Outcome.NOT_APPLICABLE, str(error))
        except HostUnfit as error:
            self._not_inspected(str(error), ended(self.check, self.file_name, error))
        except Unavailable as error:
            self._not_inspected(str(error))
        except PackageError as error:
            self._unreadable(error)
        except GatherError as error:
            self.note(Outcome.ERROR, self.check.family, reason=str(error))
            raise
        except CheckError as error:
            self.note(Outcome.BROKEN, self.check.family, reason=str(error))
            raise

    def _unreadable(self, error: PackageError) -> None:
        """Said once a package: the first check fails with it, the others could not look."""
        if self.package.unreadable:
            self._not_inspected(ended(self.check, self.file_name, error).reason)
            return
        self.package.unreadable = True
        verdict = unreadable(self.file_name, error)
        self.note(Outcome.FAILED, self.check.family, reason=UNREADABLE, verdict=verdict)
        self.failure = describe(verdict, ())

    def runtest(self) -> None:
        """Judge the facts."""
        if self.failure:
            raise ProblemsFound(self.failure)
        assert self.case is not None
        try:
            verdict = judge_case(self.case, self.state.profile, self.state.today)
        except NotApplicable as error:  # what there is to judge shows only in the facts themselves
            self._skip(Outcome.NOT_APPLICABLE, str(error))
        except CheckError as error:
            self.note(Outcome.BROKEN, self.check.family, reason=str(error))
            raise
        if verdict.problems:
            self.note(Outcome.FAILED, self.check.family, verdict=verdict)
            raise ProblemsFound(describe(verdict, advice(self.check.documentation)))
        if verdict.not_inspected:
            self._not_inspected(self._gap(verdict), verdict)
            raise ProblemsFound(self.failure)
        if verdict.accepted:
            self.note(Outcome.ACCEPTED, self.check.family, verdict=verdict)
            reasons = "; ".join(dict.fromkeys(item.reason for item in verdict.accepted))
            raise ProblemsAccepted(one_line(f"{len(verdict.accepted):,} accepted: {reasons}"))
        self.note(verdict.outcome, self.check.family, verdict=verdict)

    def _gap(self, verdict: Verdict) -> str:
        assert self.case is not None
        unread = len(self.case.unread)
        own = tuple(each for each in verdict.not_inspected if not each.by_host)
        counted = (
            f" ({verdict.inspected} of {verdict.inspected + unread} objects read)" if unread else ""
        )
        return gap(own or verdict.not_inspected) + counted

    def _not_inspected(self, reason: str, verdict: Verdict | None = None) -> None:
        """Skip; or, where the family is required, remember the failure for runtest to raise.

        Raises GatherError where the family is required and the host alone is to blame.
        """
        if self.check.family not in self.state.ledger.required:
            self._skip(Outcome.NOT_INSPECTED, reason, verdict)
        if verdict is not None and verdict.is_gap_of_host:
            self.note(Outcome.ERROR, self.check.family, reason=reason, verdict=verdict)
            raise GatherError(reason)
        sentence = f"not inspected, but {self.check.family} is required: {reason}"
        known = verdict or _nothing_seen(self.check, self.file_name)
        problem = Problem(sentence=sentence, cause=f"{NOT_SEEN}{reason}")
        verdict = replace(known, problems=(problem,))
        self.note(Outcome.FAILED, self.check.family, reason=reason, verdict=verdict)
        self.failure = describe(verdict, ())

    def _skip(self, outcome: Outcome, reason: str, verdict: Verdict | None = None) -> NoReturn:
        self.note(outcome, self.check.family, reason=reason, verdict=verdict)
        pytest.skip(cut(one_line(f"{outcome.value}: {reason}")))
