"""Reports on a run, for people and programs: one module for each format, all listed here."""

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
    """A format of reports, implemented by a module."""

    @property
    def name(self) -> str:
        """The name before the colon in ``--binary-report FORMAT:FILE``."""

    @property
    def of_facts(self) -> bool:
        """Whether the report contains the facts of a single package.

        Other reports contain the results for all packages.
        """

    @property
    def uses_facts(self) -> bool:
        """Whether the run must keep each package's facts for the report."""

    def write(self, run: RunResult, out: TextIO) -> None:
        """Write the report. Raises GatherError if its data are missing."""


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
"""The modules that a report needs, by the report's name; only the extra ``report`` installs
them.
"""
