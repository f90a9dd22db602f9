"""Finds the line that matters in what CMake, a compiler or a linker wrote."""

from __future__ import annotations

import re
from collections.abc import Iterator

_LONGEST = 600  # characters
_MOST_NAMES = 200
_CMAKE = re.compile(
    r"^CMake Error(?: at (?P<place>\S+?:\d+)| in \S+?)?(?: \([^)\n]*\))?:[ \t]*", re.MULTILINE
)
_COMPILER = re.compile(r"^(?:\S[^\n]*: |[^\S\n]*)(?:fatal error|error|internal compiler error): .+")
_OF_DRIVERS = re.compile(
    r"collect2: error: |\S+: error: linker command failed|ninja: build stopped"
)
"""What is said after an error that somebody else has said already."""
_LINKER = re.compile(
    r"undefined reference to|undefined symbol|Undefined symbols|multiple definition"
    r"|duplicate symbol|cannot find -l|cannot find \S|not found \(try using|symbol lookup error"
    r"|unable to find library|file (?:format )?not recognized|incompatible with"
    r"|error while loading shared libraries|No rule to make target|missing and no known rule"
)
_UNDEFINED = re.compile(
    r"(?:undefined reference to|undefined symbol:?) (?:\S+\.o: )?[`'\"]?(?P<name>[^\s'\"`]+)"
)


def find_first_error(output: str) -> str:
    """The first error in it, one line; else the last line that says anything, "" for none."""
    if found := _CMAKE.search(output):
        paragraph = " ".join(_take_paragraphs(output[found.end() :]))
        return _cut(f"{found['place']}: {paragraph}" if found["place"] else paragraph)
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    lines = [line for line in lines if not _OF_DRIVERS.match(line)] or lines
    for rule in (_COMPILER.match, _LINKER.search):
        if first := next((line for line in lines if rule(line)), ""):
            return _cut(first)
    return _cut(lines[-1]) if lines else ""


def _take_paragraphs(text: str) -> Iterator[str]:
    """The rest of the first line, and the indented ones that follow, without CMake's guesses."""
    first, _, rest = text.partition("\n")
    yield from filter(None, (first.strip(),))
    for line in rest.splitlines():
        if line.strip() and not line.startswith(" "):
            return
        before, guesses, _ = line.partition("Possible reasons include:")
        yield from filter(None, (before.strip(),))
        if guesses:
            return


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def find_undefined(output: str) -> tuple[str, ...]:
    """The names that a linker did not find, each once, as it spells them up to a space."""
    names = dict.fromkeys(match["name"] for match in _UNDEFINED.finditer(output))
    return tuple(names)[:_MOST_NAMES]
