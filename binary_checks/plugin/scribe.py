"""Takes in what the items of a run noted, and keeps what a terminal shows of it within bounds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from binary_checks.documents.json_values import decoder, encode, read_json
from binary_checks.examination.judging import Verdict
from binary_checks.lines import MOST, MOST_OF_A_RUN, one_line
from binary_checks.model import Entry, Outcome, PackageIdentity
from binary_checks.plugin.failures import FailureText, count_hidden, describe, plain_lines
from binary_checks.plugin.session import SESSION
from binary_checks.reports.explanation import advice
from binary_checks.reports.ledger import Ledger
from binary_checks.wording.problem_lines import accepted_line, group_problems, problem_lines

SCRIBE = "binary_checks_scribe"
"""The name of the one that is registered."""
NOTED = "binary_checks_noted"
"""The report attribute that carries what an item noted from a worker to the controller."""
WARNED = "binary_checks_warned"
"""The report attribute of a check that found warnings alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Noted:
    """What an item noted of its check and, where there is news of it, of its package."""

    node: str  # of the package
    entry: Entry
    package: PackageIdentity | None = None

    def to_text(self) -> str:
        """It as JSON, an entry as result documents have it: one text travels fast."""
        return json.dumps(encode(self))

    @staticmethod
    def from_text(text: str) -> Noted:
        """What ``to_text`` gave."""
        noted: Noted = decoder(Noted)(read_json(text))
        return noted


class Scribe:
    """Keeps the ledger of the run, wherever all reports arrive."""

    def __init__(self, config: pytest.Config, ledger: Ledger) -> None:
        self._config = config
        self.ledger = ledger
        self.others_failed = False  # a test that is no check of ours
        self._left = MOST_OF_A_RUN  # problems that may still be shown
        self._hidden = 0  # problems that no line tells of
        self._warned: dict[str, list[tuple[str, str]]] = {}  # node id -> properties for JUnit
        self._awaited = Counter[str]()  # checks that have not ended, by package

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Count the checks of each package."""
        self._await(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Iterable[str]) -> None:
        """Count them as the first worker has them: here nothing is collected."""
        if not self._awaited:
            self._await(ids)

    def _await(self, ids: Iterable[str]) -> None:
        found = map(self._config.stash[SESSION].find, ids)
        self._awaited.update(examination.node for examination in found if examination)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Count down, before anybody asks."""
        if examination := self._config.stash[SESSION].find(nodeid):
            self._awaited[examination.node] -= 1

    def is_over(self, node: str) -> bool:
        """Whether all checks of that package have ended."""
        return self._awaited[node] <= 0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, None, None]:
        """Take in what an item noted. JUnit's file has every problem, a terminal the first ones."""
        noted = vars(report).pop(NOTED, None) if _is_at_its_end(self._config) else None
        found = None if noted is None else self._take(noted)
        if found is not None and len(found.problems) > MOST and _writes_junit(self._config):
            report.longrepr = self._spell(found, None)
        if noted is not None and noted.entry.outcome is Outcome.WARNED:
            setattr(report, WARNED, True)
        if report.when == "teardown":
            report.user_properties += self._warned.pop(report.nodeid, [])
        yield
        if report.failed and noted is None:
            self.others_failed = True
            self._note_crash(report)
        if found is not None and (found.warnings or found.accepted):
            self._warned[report.nodeid] = _list_properties(found)
        if found is not None and found.problems:
            shown = min(MOST, self._left)
            if hidden := count_hidden(found, shown):
                report.longrepr = self._spell(found, shown)
            self._left -= len(group_problems(found.problems)) - hidden
            self._hidden += hidden
        failure: Any = report.longrepr  # its type names none of a plugin's
        if found is not None and isinstance(failure, FailureText):
            # JUnit's file has its line by now; pytest's short summary names check and package.
            failure = failure.abridge(f"{found.check}: {found.package}: ")
            report.longrepr = failure

    def _note_crash(self, report: pytest.TestReport) -> None:
        """Note of a check whose worker died that it came to no judgement."""
        state = self._config.stash[SESSION]
        examination, name = state.find(report.nodeid), report.nodeid.rpartition("::")[2]
        known_as, _, place = name.removesuffix("]").partition("[")
        check = next((each for each in state.settings.checks if each.id == known_as), None)
        if check is None or examination is None:
            return
        known = self.ledger.result(examination.node).entries
        if all(entry.item != name for entry in known):  # xdist tries it again in other workers
            reason = one_line(str(report.longrepr))
            broken = Entry(
                check=check.id,
                place=place,
                family=check.family,
                outcome=Outcome.BROKEN,
                reason=reason,
            )
            self.ledger.add(examination.node, broken)

    def _take(self, noted: Noted) -> Verdict:
        if noted.package is not None:
            self.ledger.identify(noted.package)
        self.ledger.add(noted.node, noted.entry)
        return _verdict(self.ledger.package(noted.node).file_name, noted.entry)

    def _spell(self, verdict: Verdict, most: int | None) -> Any:
        settings = self._config.stash[SESSION].settings
        known = (check.documentation for check in settings.checks if check.id == verdict.check)
        remedy = next(map(advice, known), ())
        return plain_lines(describe(verdict, remedy, settings.program, most), verdict.package)

    def closing_lines(self) -> Iterator[str]:
        """Where the problems are that were not shown."""
        if self._hidden:
            reports = self._config.option.binary_report
            asked = (each.partition(":")[2] for each in reports if each.startswith("sarif:"))
            report = next(asked, "")
            again = "the same command with --binary-report sarif:problems.sarif writes all"
            again = self._config.stash[SESSION].settings.program.name_options(again)
            where = f"all are in {report}" if report else again
            yield f"{self._hidden:,} problems are not shown here; {where}"


def _verdict(package_file_name: str, entry: Entry) -> Verdict:
    return Verdict(package=package_file_name, **entry.result())


def _list_properties(found: Verdict) -> list[tuple[str, str]]:
    lines = problem_lines(found.check, found.package, found.warnings)
    accepted = (accepted_line(found.check, found.package, each) for each in found.accepted)
    return [*(("warning", line) for line in lines), *(("accepted", line) for line in accepted)]


def _is_at_its_end(config: pytest.Config) -> bool:
    """Whether reports go no further from here: xdist's workers send them on."""
    return not hasattr(config, "workerinput")


def _writes_junit(config: pytest.Config) -> bool:
    return bool(config.getoption("xmlpath", None)) and _is_at_its_end(config)
