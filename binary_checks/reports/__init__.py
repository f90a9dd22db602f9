"""What a run found, for people and for machines: a module a format, each listed here once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TextIO

from binary_checks.model import RunResult
from binary_checks.reports import (
    facts_document,
    github,
    gitlab,
    html,
    job_summary,
    junit,
    known_list,
    markdown,
    result_document,
    sarif,
    terminal,
)


class Report(Protocol):
    """A format of reports; a module is one."""

    @property
    def name(self) -> str:
        """What stands before the colon in ``--binary-report FORMAT:FILE``."""

    @property
    def of_facts(self) -> bool:
        """Whether it holds the facts of one package, whole.

        Any other one says what was found out about all packages.
        """

    @property
    def uses_facts(self) -> bool:
        """Whether the facts of each package are kept for it while the run lasts."""

    def write(self, run: RunResult, out: TextIO) -> None:
        """Write it; raises GatherError where what it holds is not there."""


REPORTS: tuple[Report, ...] = (
    terminal,
    result_document,
    sarif,
    junit,
    markdown,
    html,
    github,
    job_summary,
    gitlab,
    known_list,
    facts_document,
)
LIBRARIES: Mapping[str, tuple[str, ...]] = {"html": ("jinja2", "squarify")}
"""The modules that a report needs, by its name, and that only the extra ``report`` installs."""
