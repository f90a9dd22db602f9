"""A run as one page of HTML that needs nothing else: no script, no network, no second file."""

from __future__ import annotations

import base64
import hashlib
from typing import TextIO

from binary_checks.model import Run

name = "html"
of_facts = False
uses_facts = True


def write(run: Run, out: TextIO) -> None:
    """Write the page; all that packages say is escaped, and its own style is all that it loads."""
    import jinja2
    import markupsafe

    from binary_checks.reports.html.page import lay_out_page, mark_up

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(__name__),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = mark_up
    style = environment.get_template("page.css").render()
    page = environment.get_template("page.html").generate(
        page=lay_out_page(run),
        style=markupsafe.Markup(style),  # noqa: S704 - our own
        style_hash=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
    )
    out.writelines(page)
