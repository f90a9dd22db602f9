"""Untrusted text as one line that controls neither a terminal nor a build service."""

from __future__ import annotations

import re

LONGEST = 500
"""Longest line on a terminal, in characters; documents contain the complete line."""
SHOWN = 100
"""Longest text of a package in a sentence, in characters."""
SHOWN_NAME = 160  # characters of one name in a list, which may be a path with an explanation
MOST = 50
"""Most problems, or notes, shown for one check on one package."""
MOST_OF_A_RUN = 1_000
"""Most problems of a whole run that a terminal shows, and most lines of any other list."""

_INVISIBLE = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
)
"""Printable for Python, but invisible: Default_Ignorable_Code_Point (UAX #44)."""
_UNSEEN = re.compile(f"[{_INVISIBLE}]")

# Commands that GitHub's runner obeys at the beginning of a line, after spaces (ActionCommand.cs).
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
"""Commands to a build service in a program's output: GitHub, Azure, TeamCity, GitLab, Travis. They
are matched anywhere in a line, as text before them may be cut off or moved."""


def one_line(text: str) -> str:
    """Return the text as one line, with escapes for characters that control terminals or builds.

    Names come from hostile archives and from the command line. Escaping twice has the same result
    as escaping once.
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
    """Return the line, without its middle if it is longer than ``longest`` characters."""
    if len(line) <= longest:
        return line
    kept = longest - 40  # leave room for the words that replace the middle
    head, tail = line[: kept - kept // 3], line[len(line) - kept // 3 :]
    return f"{head} [... {len(line) - kept} characters ...] {tail}"


def elide(text: str, width: int = SHOWN, *, ascii_only: bool = True) -> str:
    """Return the text, shortened to a width; more of its end is kept than of its start."""
    gap = "..." if ascii_only else "\u2026"
    kept = max(width, 12) - len(gap)
    if len(text) <= kept + len(gap):
        return text
    head = kept * 2 // 5
    return f"{text[:head]}{gap}{text[len(text) - (kept - head) :]}"
