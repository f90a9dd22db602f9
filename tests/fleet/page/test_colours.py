"""Every text has enough contrast to its background, in both colour schemes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import binary_checks.reports.html
from fixtures.contrast import contrast

PALETTE = Path(binary_checks.reports.html.__file__).parent / "templates" / "palette.css"
TEXTS = ("ink", "soft", "bad", "good", "mild", "link")
GROUNDS = {
    "back": TEXTS,
    "card": TEXTS,
    "code": ("ink", "soft"),
    "bad-back": ("bad",),
    "good-back": ("good",),
    "mild-back": ("mild",),
    "bad": ("card",),
}


def read_schemes() -> dict[str, dict[str, str]]:
    light, dark = PALETTE.read_text("utf-8").split("@media (prefers-color-scheme: dark)")
    variable = re.compile(r"--([a-z-]+): (#[0-9a-f]{6});")
    return {"light": dict(variable.findall(light)), "dark": dict(variable.findall(dark))}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_a_contrast_of_four_and_a_half(scheme: str) -> None:
    colours = read_schemes()[scheme]
    pairs = [(text, ground) for ground, texts in GROUNDS.items() for text in texts]
    found = {pair: contrast(colours[pair[0]], colours[pair[1]]) for pair in pairs}
    assert {pair: round(value, 2) for pair, value in found.items() if value < 4.5} == {}


def test_what_is_drawn_differs_from_what_it_stands_on() -> None:
    for colours in read_schemes().values():
        for tone in ("bad", "mild", "native", "device", "python", "link"):
            assert contrast(colours[tone], colours["card"]) >= 2, tone
