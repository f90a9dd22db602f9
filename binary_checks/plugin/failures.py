"""How problems travel to pytest, and how they look there: as they are, one line each."""

from __future__ import annotations

from _pytest._code.code import (
    ExceptionChainRepr,
    ReprEntryNative,
    ReprFileLocation,
    ReprTraceback,
)


class ProblemsFound(Exception):
    """The package has problems that nobody accepted; the text is one line each."""


class ProblemsAccepted(Exception):
    """Every problem found is accepted in the profile; the text is the reasons."""


def plain_lines(text: str, file_name: str) -> ExceptionChainRepr:
    """Text at column 0, its first line also in the short summary and in JUnit's message."""
    traceback = ReprTraceback([ReprEntryNative([text + "\n"])], None, style="native")
    location = ReprFileLocation(file_name, 0, text.splitlines()[0])
    return ExceptionChainRepr([(traceback, location, None)])
