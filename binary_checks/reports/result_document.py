"""A run as the result document, from which every other report can be made."""

from __future__ import annotations

from typing import TextIO

from binary_checks.documents.result import write_results
from binary_checks.model import RunResult

name = "json"
of_facts = uses_facts = False


def write(run: RunResult, out: TextIO) -> None:
    """Write the document, binary-checks/result/1."""
    out.writelines(write_results(run))
