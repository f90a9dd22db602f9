"""Which checks run for every package, and which only if a profile asks for them."""

from __future__ import annotations

import re
from pathlib import Path

from binary_checks.declaring import find_checks

PAGES = Path(__file__).parents[2] / "docs" / "checks"


def test_the_checks_that_are_off_are_those_whose_pages_say_so() -> None:
    """The pages are generated, and a change of one is seen before it is committed."""
    text = "\n".join(page.read_text("utf-8") for page in sorted(PAGES.glob("*.md")))
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    off = {each.partition("\n")[0] for each in sections if "Off until a profile" in each}
    assert off == {check.id for check in find_checks() if not check.enabled}
    assert {"orphan-library", "unexpected-version"} <= off
