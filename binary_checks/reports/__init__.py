"""Reports on a run, for people and programs, all listed here."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import NamedTuple, TextIO

from binary_checks.documents.result import write_results
from binary_checks.errors import GatherError
from binary_checks.model import RunResult
from binary_checks.reports import github, html, junit, known_list, markdown, sarif, terminal


class Report(NamedTuple):
    """A format of reports."""

    name: str  # before the colon in ``--binary-report FORMAT:FILE``
    # Writes the report. Raises GatherError if its data are missing.
    write: Callable[[RunResult, TextIO], None]
    # whether it contains the facts of a single package instead of the results for all packages
    of_facts: bool = False
    uses_facts: bool = False  # whether the run must keep each package's facts for it
    libraries: tuple[str, ...] = ()  # modules of the extra ``report`` that it needs


def _write_facts(run: RunResult, out: TextIO) -> None:
    """Write the facts of the run's only package, as `binary-checks inspect` writes them."""
    (package,) = (each for each in run.packages if not each.parts)
    kept = run.facts.get(package.node)
    if kept is None:
        raise GatherError(f"{package.file_name}: its facts were not gathered")
    with kept.open(encoding="utf-8", newline="") as file:
        shutil.copyfileobj(file, out, 1 << 20)


REPORTS = (
    Report("terminal", terminal.write),
    # binary-checks/result/1, from which every other report can be made
    Report("json", lambda run, out: out.writelines(write_results(run))),
    Report("sarif", sarif.write),
    Report("junit", junit.write),
    Report("markdown", markdown.write),
    Report("html", html.write, uses_facts=True, libraries=("jinja2", "squarify")),
    Report("github", github.write),
    Report("github-summary", markdown.write_job_summary),
    Report("known", known_list.write),
    Report("facts", _write_facts, of_facts=True, uses_facts=True),
)
