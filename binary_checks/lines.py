"""Text from outside as one line: it drives no terminal, no build service, and does not run on."""

from __future__ import annotations

import re

LONGEST = 500
"""Characters of a line on a terminal; documents have it whole."""
MOST = 50
"""Problems, or notes, of one check on one package that are shown."""
MOST_OF_A_RUN = 1_000
"""Problems of all checks on all packages that a terminal shows, and lines of anything else."""

_INVISIBLE = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
)
"""Printable for Python, and yet nothing to be seen: Default_Ignorable_Code_Point (UAX #44)."""
_UNSEEN = re.compile(f"[{_INVISIBLE}]")

# What GitHub's runner obeys: at the beginning of a line, spaces aside (ActionCommand.cs).
_GITHUB = (
    "(?:internal-)?(?:add-mask|add-matcher|add-path|debug|echo|endgroup|error|group|notice"
    "|remove-matcher|save-state|set-env|set-output|set-repo-path|stop-commands|warning)"
)
_COMMAND = re.compile(
    rf"""
      (\A\s*)(:)(?=:)                             # ::whatever::
    | ()(:)(?=:{_GITHUB}(?:\s.*?)?::)             # ... ::error file=a::
    | (\#\#(?:vso|teamcity)?)(\[)                 # ##[group], ##vso[task.complete], ##teamcity[
    | ((?:section_(?:start|end)|travis_(?:fold|time)))(:)
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""How a build service is driven by what a program prints: GitHub, Azure, TeamCity, GitLab, Travis.
Wherever in a line it stands, for what stands before it may be cut off or moved."""


def one_line(text: str) -> str:
    """The text with escapes for what could break the line, drive the terminal, or command a build.

    Names come out of hostile archives, and out of the command line. Twice is the same as once.
    """
    if not text.isprintable() or (not text.isascii() and _UNSEEN.search(text)):
        text = "".join(map(_escape, text))
    return _COMMAND.sub(_disarm, text)


def _escape(char: str) -> str:
    if char.isprintable() and not _UNSEEN.match(char):
        return char
    return char.encode("unicode_escape").decode("ascii")


def _disarm(found: re.Match[str]) -> str:
    before, char = (group for group in found.groups() if group is not None)
    return f"{before}\\x{ord(char):02x}"


def cut(line: str, longest: int = LONGEST) -> str:
    """The line with its middle left out where it is longer than that."""
    if len(line) <= longest:
        return line
    kept = longest - 40  # room for the words that stand for the middle
    head, tail = line[: kept - kept // 3], line[len(line) - kept // 3 :]
    return f"{head} [... {len(line) - kept} characters ...] {tail}"
