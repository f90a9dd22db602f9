"""Whether the condition of an ``if`` holds, where that can be known without running CMake."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from binary_checks.cmake_code.language import Argument

_TRUE = re.compile(r"(?:1|ON|YES|TRUE|Y|-?[1-9]\d*(?:\.\d+)?)", re.IGNORECASE)
_FALSE = re.compile(r"(?:0|OFF|NO|FALSE|N|IGNORE|NOTFOUND|.*-NOTFOUND|)", re.IGNORECASE)
_COMPARISONS = frozenset(
    {"STREQUAL", "EQUAL", "LESS", "GREATER", "LESS_EQUAL", "GREATER_EQUAL", "STRLESS", "STRGREATER"}
    | {"STRLESS_EQUAL", "STRGREATER_EQUAL", "MATCHES", "IN_LIST", "IS_NEWER_THAN", "PATH_EQUAL"}
    | {f"VERSION_{each}" for each in ("LESS", "GREATER", "EQUAL", "LESS_EQUAL", "GREATER_EQUAL")}
)
_NUMBERS: Mapping[str, Callable[[int, int], bool]] = {
    "EQUAL": operator.eq,
    "LESS": operator.lt,
    "GREATER": operator.gt,
    "LESS_EQUAL": operator.le,
    "GREATER_EQUAL": operator.ge,
}
_INTEGER = re.compile(r"-?\d{1,18}", re.ASCII)
_TESTS = frozenset(
    {"DEFINED", "EXISTS", "TARGET", "COMMAND", "POLICY", "TEST", "IS_DIRECTORY", "IS_SYMLINK"}
    | {"IS_ABSOLUTE", "IS_READABLE", "IS_WRITABLE", "IS_EXECUTABLE"}
)
SYSTEMS: Mapping[str, Mapping[str, str]] = {
    "linux": {"UNIX": "1", "WIN32": "", "APPLE": "", "MSVC": "", "CMAKE_SYSTEM_NAME": "Linux"},
    "macos": {"UNIX": "1", "WIN32": "", "APPLE": "1", "MSVC": "", "CMAKE_SYSTEM_NAME": "Darwin"},
    "windows": {"UNIX": "", "WIN32": "1", "APPLE": "", "CMAKE_SYSTEM_NAME": "Windows"},
}
"""What CMake says of the system that it builds for."""
_MOST_WORDS = 1000  # in one condition


class Known(NamedTuple):
    """What is asked of the place where the condition stands; each answers None for unknown."""

    expand: Callable[[Argument], str | None]  # what an argument stands for
    value: Callable[[str], str | None]  # of a variable
    is_set: Callable[[str], bool | None]  # whether there is such a variable
    exists: Callable[[str], bool | None]
    has_target: Callable[[str], bool | None]


def decide(condition: Sequence[Argument], known: Known) -> bool | None:
    """True, False, or None where that depends on the user's system."""
    if len(condition) > _MOST_WORDS:
        return None
    words = _Words(condition, known)
    found = words.read_any(0)
    return found if words.at_end else None


class _Words:
    """A condition, read from its start: OR binds less than AND, and that less than NOT."""

    def __init__(self, words: Sequence[Argument], known: Known) -> None:
        self._words, self._known, self._at = words, known, 0

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._words)

    def read_any(self, depth: int) -> bool | None:
        found = self._read_all(depth)
        while self._take("OR"):
            other = self._read_all(depth)
            found = True if found or other else None if None in {found, other} else False
        return found

    def _read_all(self, depth: int) -> bool | None:
        found = self._read_one(depth)
        while self._take("AND"):
            other = self._read_one(depth)
            found = False if False in {found, other} else None if None in {found, other} else True
        return found

    def _read_one(self, depth: int) -> bool | None:
        if depth > 50 or self.at_end:
            self._at = len(self._words) + 1
            return None
        if self._take("NOT"):
            found = self._read_one(depth + 1)
            return None if found is None else not found
        if self._take("("):
            found = self.read_any(depth + 1)
            return found if self._take(")") else None
        return self._read_test()

    def _take(self, word: str) -> bool:
        if not self.at_end and self._words[self._at] == Argument(word):
            self._at += 1
            return True
        return False

    def _read_test(self) -> bool | None:
        first = self._words[self._at]
        self._at += 1
        if first.text in _TESTS and not first.quoted and not self.at_end:
            self._at += 1
            return self._test(first.text, self._words[self._at - 1])
        if not self.at_end and self._words[self._at].text in _COMPARISONS:
            comparison = self._words[self._at].text
            self._at += 2
            if self._at > len(self._words):
                return None
            return self._compare(first, comparison, self._words[self._at - 1])
        return self._is_true(first)

    def _test(self, test: str, subject: Argument) -> bool | None:
        if test == "DEFINED" and subject.text.startswith("ENV{"):
            return False  # who sets one of these asks for another result
        name = self._known.expand(subject)
        if name is None:
            return None
        asked = {
            "DEFINED": self._known.is_set,
            "EXISTS": self._known.exists,
            "TARGET": self._known.has_target,
        }.get(test)
        return asked(name) if asked else None

    def _compare(self, left: Argument, comparison: str, right: Argument) -> bool | None:
        one, other = self._operand(left), self._operand(right)
        if one is None or other is None:
            return None
        if comparison == "STREQUAL":
            return one == other
        compare = _NUMBERS.get(comparison)
        if compare is None or not (_INTEGER.fullmatch(one) and _INTEGER.fullmatch(other)):
            return None
        return compare(int(one), int(other))

    def _operand(self, word: Argument) -> str | None:
        text = self._known.expand(word)
        if text is None or word.quoted or "$" in word.text or _INTEGER.fullmatch(text):
            return text
        found = self._known.value(text)
        return text if found is None and self._known.is_set(text) is False else found

    def _is_true(self, word: Argument) -> bool | None:
        text = self._known.expand(word)
        if text is None:
            return None
        if _TRUE.fullmatch(text):
            return True
        if _FALSE.fullmatch(text):
            return False
        value = None if word.quoted else self._known.value(text)
        return None if value is None else not _FALSE.fullmatch(value)
