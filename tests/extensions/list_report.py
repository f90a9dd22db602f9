"""A toy report: a line for each check."""

from __future__ import annotations

from typing import TextIO

from binary_checks.model import RunResult
from binary_checks.reports import Report


def write(run: RunResult, out: TextIO) -> None:
    for package in run.packages:
        for entry in package.entries:
            out.write(f"{package.file_name} {entry.check} {entry.outcome.value}\n")


REPORT = Report("list", write)
