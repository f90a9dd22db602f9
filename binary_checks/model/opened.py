"""The names of libraries that an object file holds for a function that opens libraries by name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenedNames:
    """File names of shared libraries among the strings of an object's read-only data.

    Whether it opens one, and when, the data do not tell: a name may serve for a comparison too.
    """

    names: tuple[str, ...] = ()  # sorted, without its own and those that it needs
    unread: str = ""  # why not all of the data were searched; "" where they were
    too_large: bool = False  # that is so because there is more of something than is read
