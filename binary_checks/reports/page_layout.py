"""How text is laid out where it is read: its width, its colours, and the characters it may have."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

_CODES = {"red": 31, "green": 32, "yellow": 33, "cyan": 36, "bold": 1, "dim": 2}
_ROOM = 24  # columns below which text beside a margin is harder to read than below it


@dataclass(frozen=True, kw_only=True, slots=True)
class PageLayout:
    """What the reader's end can show; as it is, a pipe: whole lines, no colours."""

    columns: int = 0  # of a terminal; 0: a line stays one, however long
    colours: bool = False
    ascii: bool = False  # whether it has no other characters

    @property
    def dot(self) -> str:
        """What stands between the parts of a verdict."""
        return " - " if self.ascii else " \u00b7 "

    def paint(self, text: str, *styles: str) -> str:
        """The text in these colours, where there are any."""
        if not (self.colours and text):
            return text
        codes = ";".join(str(_CODES[style]) for style in styles)
        return f"\x1b[{codes}m{text}\x1b[0m"

    def leaves_room(self, margin: int) -> bool:
        """Whether text beside a margin of that width still reads well."""
        return self.columns - margin >= _ROOM

    def wrap(self, text: str, margin: int, hanging: int = 0) -> Iterator[str]:
        """The text in lines that fit beside the margin, which they have not yet.

        Those after the first stand further in by ``hanging``. Names and paths are not broken.
        """
        width = max(self.columns - margin, 1) if self.columns else len(text) + 1
        yield from textwrap.wrap(
            text,
            width,
            subsequent_indent=" " * hanging,
            break_long_words=False,
            break_on_hyphens=False,
        )

    def elide(self, text: str, margin: int = 0) -> str:
        """The text with its middle left out where it does not fit beside the margin."""
        return elide(text, self.columns - margin, ascii_only=self.ascii) if self.columns else text


def elide(text: str, width: int, *, ascii_only: bool = False) -> str:
    """The text with its middle left out where it is longer than that; its end says more."""
    gap = "..." if ascii_only else "\u2026"
    kept = max(width, 12) - len(gap)
    if len(text) <= kept + len(gap):
        return text
    head = kept * 2 // 5
    return f"{text[:head]}{gap}{text[len(text) - (kept - head) :]}"
