"""A badge of a project or a cell, as SVG that needs no font of its own and loads nothing."""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree import ElementTree

from binary_checks.fleet.states import GOOD, CellState

_COLOURS = {"good": "#146c37", "bad": "#b3261e", "mild": "#805000"}
"""Each with a contrast to white of at least 4.5 (WCAG 2, 1.4.3)."""
_LABEL = "#454b57"
_HIGH, _PAD, _CHARACTER = 20, 6, 6.6  # pixels; of a character the widest average of common fonts
_SPACE = "http://www.w3.org/2000/svg"


def draw_project_badge(project: str, counts: Mapping[CellState, int]) -> str:
    """How many cells of a project are well."""
    total = sum(counts.values())
    well = sum(counts.get(state, 0) for state in GOOD)
    if failed := counts.get(CellState.FAILED, 0):
        return draw_badge(project, f"{failed} of {total} cells fail", "bad")
    return draw_badge(project, f"{well} of {total} cells pass", "good" if well == total else "mild")


def draw_cell_badge(cell: str, state: CellState) -> str:
    """How a cell ended."""
    tone = "good" if state in GOOD else "bad" if state is CellState.FAILED else "mild"
    return draw_badge(cell, state.value, tone)


def draw_badge(label: str, said: str, tone: str) -> str:
    """Two words side by side."""
    left, right = (round(len(text) * _CHARACTER + 2 * _PAD) for text in (label, said))
    svg = ElementTree.Element(
        "svg", xmlns=_SPACE, width=str(left + right), height=str(_HIGH), role="img"
    )
    ElementTree.SubElement(svg, "title").text = f"{label}: {said}"
    for x, width, colour in ((0, left, _LABEL), (left, right, _COLOURS[tone])):
        ElementTree.SubElement(
            svg, "rect", x=str(x), width=str(width), height=str(_HIGH), fill=colour
        )
    for x, width, text in ((0, left, label), (left, right, said)):
        each = ElementTree.SubElement(
            svg,
            "text",
            {"x": str(x + width / 2), "y": "14", "fill": "#ffffff", "font-size": "11"},
        )
        each.set("text-anchor", "middle")
        each.set("textLength", str(round(width - 2 * _PAD)))
        each.set("font-family", "Verdana, DejaVu Sans, sans-serif")
        each.text = text
    return ElementTree.tostring(svg, encoding="unicode") + "\n"
