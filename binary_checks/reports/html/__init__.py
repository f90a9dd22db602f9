"""A run as one self-contained HTML page, with no script, network access or second file."""

from __future__ import annotations

from typing import TextIO

from binary_checks.model import RunResult


def write(run: RunResult, out: TextIO) -> None:
    """Write the page; texts from packages are escaped, and only the page's own style is loaded."""
    from binary_checks.reports.html.page import generate_page

    out.writelines(generate_page(run))
