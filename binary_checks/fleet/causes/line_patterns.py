"""Patterns over one line that no line can keep busy: what backtracks without bound is refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from binary_checks.lines import cut

LONGEST_LINE = 500
"""Characters of a line that patterns see: the search of the worst one takes their square."""
_LONGEST_PATTERN = 500
_MOST_OPTIONAL = 8  # each may double the ways to be tried
_TOKEN = re.compile(
    r"""
      (?P<escape>\\(?:[wWdDsSbB]|[^a-zA-Z0-9]))       # no \1, no \N{...}
    | (?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])
    | (?P<open>\((?:\?:)?(?!\?))
    | (?P<close>\))
    | (?P<branch>\|)
    | (?P<repeat>(?:[*+?]|\{\d*,?\d*\})\??)
    | (?P<plain>[^\\\[()|*+?{}])
    """,
    re.VERBOSE | re.DOTALL,
)


class SlowPattern(ValueError):
    """A pattern that is none, or that some line could keep busy; the text says which, and why."""


def compile_pattern(text: str) -> re.Pattern[str]:
    """The pattern, for which capitals are small letters. Raises SlowPattern.

    Without ``^`` one repetition without a bound is allowed, behind it two, and none of a group:
    so a line takes no more steps than the square of its length.
    """
    try:
        return _compile(text)
    except SlowPattern as error:
        raise SlowPattern(f"pattern {cut(text, 80)!r}: {error}") from None


def _compile(text: str) -> re.Pattern[str]:
    if len(text) > _LONGEST_PATTERN:
        raise SlowPattern(f"{len(text)} characters, of at most {_LONGEST_PATTERN}")
    try:
        compiled = re.compile(text, re.IGNORECASE)
    except (re.error, RecursionError, OverflowError) as error:
        raise SlowPattern(f"not a regular expression: {error}") from None
    if compiled.match(""):
        raise SlowPattern("it matches every line")
    _weigh(_split(text))
    return compiled


def _split(text: str) -> Iterator[re.Match[str]]:
    place = 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise SlowPattern(f"{text[place : place + 3]!r} at {place} is not supported")
        yield found
        place = found.end()


def _weigh(tokens: Iterable[re.Match[str]]) -> None:
    """Refuse an alternative of the whole pattern that may try too many ways."""
    depth = repeats = optional = 0
    anchored = fresh = True
    after = ""  # the token before
    for token in tokens:
        if fresh:
            anchored, fresh = token.group() == "^", False
        depth += (token.lastgroup == "open") - (token.lastgroup == "close")
        if token.lastgroup == "branch" and not depth:
            repeats = optional = 0
            fresh = True
        elif token["repeat"] and _is_optional(token):
            optional += 1
        elif token["repeat"]:
            if after == ")":  # (a|aa)* has a way for each sum
                raise SlowPattern("a group is repeated")
            repeats += 1
        if repeats > 1 + anchored:
            raise SlowPattern("too many repetitions: one without ^, two behind it")
        if optional > _MOST_OPTIONAL:
            raise SlowPattern(f"more than {_MOST_OPTIONAL} optional parts")
        after = token.group()


def _is_optional(token: re.Match[str]) -> bool:
    return token.group() in ("?", "??")
