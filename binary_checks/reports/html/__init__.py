"""A run as one self-contained HTML page, with no script, network access or second file."""

from __future__ import annotations

from typing import TextIO

from binary_checks.model import RunResult


def write(run: RunResult, out: TextIO) -> None:
    """Write the page; texts from packages are escaped, and only the page's own style is loaded."""
    from binary_checks.reports.html.page import lay_out_page, mark_up
    from binary_checks.reports.html.templating import prepare, read_own

    environment = prepare(__name__)
    environment.filters["prose"] = mark_up
    style, source = read_own(environment, "page.css")
    page = environment.get_template("page.html").generate(
        page=lay_out_page(run), style=style, style_source=source
    )
    out.writelines(page)
