"""A package's description as an index would show it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderedDescription:
    """What became of the description when the library of PyPI rendered it."""

    content_type: str = ""  # as METADATA states it; "" where it states none
    length: int = 0  # characters
    renders: bool | None = None  # None: it was not rendered, for the reason that is given
    reason: str = ""
    faults: tuple[str, ...] = ()  # what the renderer says of it, in its words
