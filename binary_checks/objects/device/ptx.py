"""Reads what a text of PTX says of itself: the version of the language, and its target."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from binary_checks.errors import MalformedError

_VERSION = re.compile(rb"^[ \t]*\.version[ \t]+(\d{1,3}\.\d{1,3})(?![\d.])", re.MULTILINE)
_TARGET = re.compile(rb"^[ \t]*\.target[ \t]+(sm_\d{1,4}[af]?)(?![0-9A-Za-z_])", re.MULTILINE)
_BEGINNING: Final = 1 << 20  # bytes in which both are looked for; licences may stand before them


class Ptx(NamedTuple):
    """What the two directives say that every text of PTX begins with."""

    version: str  # "8.8"
    architecture: str  # "sm_90a"


def read_ptx(content: bytes, count: Callable[[int], None] | None = None) -> Ptx:
    """Read both directives. Raises MalformedError where they are not there.

    ``count`` is told how many bytes they were looked for in.
    """
    beginning = content[:_BEGINNING]
    version, target = _VERSION.search(beginning), _TARGET.search(beginning)
    if count is not None:
        ends = (each.end() if each else len(beginning) for each in (version, target))
        count(max(ends))
    if version is None or target is None:
        missing = ".version" if version is None else ".target"
        raise MalformedError(f"it is no PTX, it has no {missing} that could be read")
    return Ptx(version[1].decode(), target[1].decode())
