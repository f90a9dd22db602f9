"""A run as one page of HTML that needs nothing else: no script, no network, no second file."""

from __future__ import annotations

from typing import TextIO

from binary_checks.model import RunResult

name = "html"
of_facts = False
uses_facts = True


def write(run: RunResult, out: TextIO) -> None:
    """Write the page; all that packages say is escaped, and its own style is all that it loads."""
    from binary_checks.reports.html.page import lay_out_page, mark_up
    from binary_checks.reports.html.templating import prepare, read_own

    environment = prepare(__name__)
    environment.filters["prose"] = mark_up
    style, source = read_own(environment, "page.css")
    page = environment.get_template("page.html").generate(
        page=lay_out_page(run), style=style, style_source=source
    )
    out.writelines(page)
