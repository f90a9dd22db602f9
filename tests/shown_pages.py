"""What the tests of pages in a browser share: a tab, hostile text, and the rules of axe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fixtures.browser import Page, find_axe, find_browser

HOSTILE = "\"><img src=x onerror=alert(1)><script>alert(2)</script></style>\u202e'"
RULES = 20  # of axe, at least, that found something to look at and had no objection


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    program = find_browser()
    if program is None:
        pytest.skip("no Chromium on this machine")
    with Page(program, tmp_path_factory.mktemp("browser")) as opened:
        yield opened


def demand_accessible(page: Page, uri: str, scheme: str, width: int) -> dict[str, Any]:
    """Hold all of a page, unfolded, against axe's rules; what it found."""
    axe = find_axe()
    if axe is None:
        pytest.skip("axe is not installed (pip install --no-deps axe-playwright-python)")
    page.open(uri, scheme=scheme, width=width)
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    page.evaluate(axe.read_text("utf-8"))
    found: dict[str, Any] = page.evaluate(
        "axe.run(document, {resultTypes: ['violations', 'incomplete']})"
    )
    said = [(each["id"], each["nodes"][0]["html"]) for each in found["violations"]]
    assert said == []
    assert len(found["passes"]) >= RULES
    return found
