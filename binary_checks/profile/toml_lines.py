"""The lines of a TOML file on which its keys and strings stand, which tomllib does not tell."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

_TOKEN = re.compile(
    r'(?P<long>"""(?:[^"\\]+|\\.|"{1,2}(?!"))*"{3,5}|' + r"'''(?:[^']+|'{1,2}(?!'))*'{3,5})"
    r'|(?P<text>"(?:[^"\\\n]|\\.)*"|' + r"'[^'\n]*')"
    r"|(?P<mark>[\[\]{},=.])"
    r"|(?P<end>(?:#[^\n]*)?\n)"  # with the comment before it
    r"|(?P<bare>[^\s\[\]{},=.#\"']+)",
    re.DOTALL,
)
Path = tuple[str | int, ...]
"""The keys and the positions in arrays that lead to a value."""


class Located(str):
    """A key or a string of a TOML file, with its place."""

    __slots__ = ("_lines", "_path", "source")
    source: str  # the file, as messages name it
    _lines: _Lines
    _path: Path

    def __new__(cls, text: str, source: str, lines: _Lines, path: Path) -> Located:
        """Return the text with its place."""
        made = super().__new__(cls, text)
        made.source, made._lines, made._path = source, lines, path
        return made

    @property
    def line(self) -> int:
        """The line in the file, from 1."""
        return self._lines.find(self._path)

    @property
    def table_line(self) -> int:
        """The line on which the table of a key begins."""
        return self._lines.find(self._path[:-1])

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Be a plain string in another process, which prints no line."""
        return str, (str(self),)


def locate_strings(tables: dict[str, Any], text: str, source: str) -> dict[str, Any]:
    """Return the tables of a valid text with a ``Located`` for each key and string."""
    lines = _Lines(text)

    def copy(value: Any, path: Path) -> Any:
        if isinstance(value, dict):
            return {
                Located(key, source, lines, (*path, key)): copy(each, (*path, key))
                for key, each in value.items()
            }
        if isinstance(value, list):
            return [copy(each, (*path, index)) for index, each in enumerate(value)]
        return Located(value, source, lines, path) if isinstance(value, str) else value

    located: dict[str, Any] = copy(tables, ())
    return located


class _Lines:
    """The lines of a valid text. One pass over its tokens finds them when a message needs one."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._line = 1
        self._counts: dict[Path, int] = {}  # arrays of tables, with the tables so far
        self._open: list[tuple[str, Path]] = []  # brackets of the value, each with its path
        self._at: list[int] = []  # for each open bracket the position in its array
        self._table: Path = ()  # of the last header
        self._parts: list[str] | None = []  # of the key that is being read; None in a value
        self._value: Path = ()  # where the value belongs that is being read
        self._first = 1  # line of the key

    def find(self, path: Path) -> int:
        """Return the line of a value, else of the nearest table or array around it."""
        ends = range(len(path), 0, -1)
        return next((self._lines[path[:end]] for end in ends if path[:end] in self._lines), 1)

    @cached_property
    def _lines(self) -> dict[Path, int]:
        """The line of each key and of each value in an array; the first counts."""
        lines: dict[Path, int] = {}
        for path, line in self._scan():
            for end in range(len(path), 0, -1):
                if path[:end] in lines:
                    break
                lines[path[:end]] = line
        return lines

    def _scan(self) -> Iterator[tuple[Path, int]]:
        header = ""
        for token in _TOKEN.finditer(self._text + "\n"):
            kind, word = token.lastgroup, token.group()
            if kind == "end":
                if header:
                    self._table = self._enter(header)
                    yield self._table, self._first
                if not self._open:
                    header, self._parts = "", []
                self._line += 1
            elif header:
                if kind != "mark":
                    self._add(word)
            elif word == "[" and self._parts == [] and not self._open:
                header = "[[" if self._text.startswith("[", token.end()) else "["
                self._first = self._line
            elif self._parts is not None and kind != "mark":
                self._add(word)
            elif word == "=" and self._parts is not None:
                above = self._open[-1][1] if self._open else self._table
                self._value = (*above, *self._parts)
                self._parts = None
                yield self._value, self._first
            elif kind == "mark":
                self._punctuate(word)
            else:
                yield self._place(), self._line
            self._line += word.count("\n") if kind == "long" else 0

    def _add(self, word: str) -> None:
        assert self._parts is not None
        if not self._parts:
            self._first = self._line
        # a key with escapes is not found, and gets the line of its table
        self._parts.append(word[1:-1] if word[0] in "\"'" else word)

    def _enter(self, header: str) -> Path:
        """Return the path of a header's table; of several tables of an array, the last."""
        path: Path = ()
        parts = self._parts or []
        for number, part in enumerate(parts, 1):
            path = (*path, part)
            if header == "[[" and number == len(parts):
                self._counts[path] = self._counts.get(path, 0) + 1
            if path in self._counts:
                path = (*path, self._counts[path] - 1)
        return path

    def _place(self) -> Path:
        """Return the path of the value that begins here."""
        in_array = self._open and self._open[-1][0] == "["
        return (*self._open[-1][1], self._at[-1]) if in_array else self._value

    def _punctuate(self, mark: str) -> None:
        if mark in "[{":
            self._open.append((mark, self._place()))
            self._at.append(0)
            self._parts = [] if mark == "{" else None
        elif mark in "]}" and self._open:
            self._open.pop()
            self._at.pop()
            self._parts = None
        elif mark == "," and self._open:
            self._at[-1] += 1
            self._parts = [] if self._open[-1][0] == "{" else None
