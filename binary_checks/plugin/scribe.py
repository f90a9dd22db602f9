"""Takes in what the items of a run noted, and keeps what a terminal shows of it within bounds."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest

from binary_checks.judging import Verdict
from binary_checks.lines import MOST, MOST_OF_A_RUN
from binary_checks.plugin.failures import count_hidden, describe, plain_lines
from binary_checks.plugin.session import SESSION
from binary_checks.reports.explanation import advice
from binary_checks.reports.ledger import Entry, Ledger

SCRIBE = "binary_checks_scribe"
"""The name of the one that is registered."""
ENTRY = "binary_checks_entry"
"""The report attribute that carries an entry from a worker to the controller."""


class Scribe:
    """Keeps the ledger of the run, wherever all reports arrive."""

    def __init__(self, config: pytest.Config, ledger: Ledger) -> None:
        self._config = config
        self.ledger = ledger
        self._left = MOST_OF_A_RUN  # problems that may still be shown
        self._hidden = 0  # problems that no line tells of

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, None, None]:
        """Take in what an item noted. JUnit's file has every problem, a terminal the first ones."""
        given = vars(report).pop(ENTRY, None) if _is_at_its_end(self._config) else None
        entry = None if given is None else Entry.from_json(given)
        problems = entry.verdict if entry and entry.verdict and entry.verdict.problems else None
        if problems is not None and len(problems.problems) > MOST and _writes_junit(self._config):
            report.longrepr = self._spell(problems, None)
        yield
        if entry is not None:
            self.ledger.add(entry)
        if problems is not None:
            shown = min(MOST, self._left)
            if hidden := count_hidden(problems, shown):
                report.longrepr = self._spell(problems, shown)
            self._left -= len(problems.problems) - hidden
            self._hidden += hidden

    def _spell(self, verdict: Verdict, most: int | None) -> Any:
        checks = self._config.stash[SESSION].checks
        remedy = next((advice(check) for check in checks if check.id == verdict.check), ())
        return plain_lines(describe(verdict, remedy, most), verdict.package)

    def closing_lines(self) -> Iterator[str]:
        """Where the problems are that were not shown."""
        if self._hidden:
            report = self._config.option.binary_sarif
            again = "the same command with --binary-sarif problems.sarif writes all"
            where = f"all are in {report}" if report else again
            yield f"{self._hidden:,} problems are not shown here; {where}"


def _is_at_its_end(config: pytest.Config) -> bool:
    """Whether reports go no further from here: xdist's workers send them on."""
    return not hasattr(config, "workerinput")


def _writes_junit(config: pytest.Config) -> bool:
    return bool(config.getoption("xmlpath", None)) and _is_at_its_end(config)
