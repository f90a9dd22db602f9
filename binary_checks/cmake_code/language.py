"""CMake's language: a text in, its commands in their blocks out.

The grammar is that of cmake-language(7). What variables stand for, and which command does what, is
not known here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

LONGEST_VALUE: Final = 1 << 16
"""Characters of a variable's value that is known."""
_MOST_COMMANDS = 100_000  # in one file; CMake's own largest module has 2,000
_MOST_ARGUMENTS = 1_000_000
_DEEPEST = 50  # blocks within blocks
_TOKEN = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<comment>\#(?!\[=*\[)[^\n]*)
    | (?P<opening>\#?\[(?P<marks>=*)\[)
    | "(?P<quoted>[^"\\]*(?:\\.[^"\\]*)*)"
    | (?P<parenthesis>[()])
    | (?P<word>(?:[^\s()\#"\\]|\\.)(?:[^\s()\#"\\]|\\.|"[^"\\\n]*(?:\\.[^"\\\n]*)*")*)
    """,
    re.VERBOSE | re.DOTALL,
)
_NAME = re.compile(r"[A-Za-z_]\w*")
_BLOCKS = {"if": "endif", "foreach": "endforeach", "while": "endwhile"} | {
    "macro": "endmacro",
    "function": "endfunction",
    "block": "endblock",
}
_ENDS = frozenset(_BLOCKS.values())


class CmakeSyntaxError(Exception):
    """The text is no CMake code, or larger than is read; says the line and why."""


class Argument(NamedTuple):
    """One argument of a command, as it is written."""

    text: str
    quoted: bool = False
    bracket: bool = False  # nothing in it stands for anything else


class CmakeCommand(NamedTuple):
    """One command."""

    name: str  # in lower case: CMake does not tell them apart
    arguments: tuple[Argument, ...]
    line: int


class Block(NamedTuple):
    """A command with the body that it governs; of ``if`` one branch after the other."""

    head: CmakeCommand
    body: tuple[Node, ...]
    branches: tuple[Block, ...] = ()  # of ``if``: elseif, else


Node: TypeAlias = CmakeCommand | Block


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def parse(text: str) -> tuple[Node, ...]:
    """The commands of a file. Raises CmakeSyntaxError."""
    commands = _Commands(list(_read_commands(text)))
    return commands.read_body(frozenset(), 0)


def _tokens(text: str) -> Iterator[_Token]:
    at, line = 0, 1
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise CmakeSyntaxError(f"line {line}: a text in quotes has no end")
        kind, end = str(found.lastgroup), found.end()
        if kind in {"opening", "marks"}:
            close = f"]{found['marks']}]"
            end = text.find(close, found.end())
            if end < 0:
                raise CmakeSyntaxError(f"line {line}: a bracket has no end")
            if not found[0].startswith("#"):
                yield _Token("bracket", text[found.end() : end].removeprefix("\n"), line)
            end += len(close)
        elif kind not in {"space", "comment"}:
            yield _Token(kind, found[kind], line)
        line += text.count("\n", at, end)
        at = end


def _read_commands(text: str) -> Iterator[CmakeCommand]:
    tokens = _tokens(text)
    left = _MOST_ARGUMENTS
    for number, token in enumerate(tokens):
        if number >= _MOST_COMMANDS:
            raise CmakeSyntaxError(f"it has more than {_MOST_COMMANDS} commands")
        if token.kind != "word" or not _NAME.fullmatch(token.text):
            raise CmakeSyntaxError(f"line {token.line}: no command begins so: {token.text[:40]!r}")
        arguments = tuple(_read_arguments(tokens, token.line))
        left -= len(arguments)
        if left < 0:
            raise CmakeSyntaxError(f"it has more than {_MOST_ARGUMENTS} arguments")
        yield CmakeCommand(token.text.lower(), arguments, token.line)


def _read_arguments(tokens: Iterator[_Token], line: int) -> Iterator[Argument]:
    opening = next(tokens, None)
    if opening is None or opening.text != "(" or opening.kind != "parenthesis":
        raise CmakeSyntaxError(f"line {line}: a command without a parenthesis")
    depth = 1
    for token in tokens:
        if token.kind == "parenthesis":
            depth += 1 if token.text == "(" else -1
            if not depth:
                return
        yield Argument(token.text, token.kind == "quoted", token.kind == "bracket")
    raise CmakeSyntaxError(f"line {line}: a parenthesis has no end")


class _Commands:
    """Commands one behind the other, which are put into their blocks."""

    def __init__(self, commands: Sequence[CmakeCommand]) -> None:
        self._commands = commands
        self._at = 0

    def read_body(self, ends: frozenset[str], depth: int) -> tuple[Node, ...]:
        """All nodes up to one of those commands, or up to the end of the file."""
        if depth > _DEEPEST:
            raise CmakeSyntaxError(f"more than {_DEEPEST} blocks lie within each other")
        body: list[Node] = []
        while self._at < len(self._commands):
            command = self._commands[self._at]
            if command.name in ends:
                return tuple(body)
            if command.name in _ENDS:
                raise CmakeSyntaxError(f"line {command.line}: {command.name}() ends no block")
            self._at += 1
            body.append(self._read_block(command, depth) if command.name in _BLOCKS else command)
        if ends:
            raise CmakeSyntaxError(f"a block has no {min(ends & _ENDS)}()")
        return tuple(body)

    def _read_block(self, head: CmakeCommand, depth: int) -> Block:
        end = _BLOCKS[head.name]
        if head.name != "if":
            body = self.read_body(frozenset({end}), depth + 1)
            self._at += 1
            return Block(head, body)
        parts: list[Block] = []
        part = head
        while True:
            body = self.read_body(frozenset({end, "elseif", "else"}), depth + 1)
            parts.append(Block(part, body))
            part = self._commands[self._at]
            self._at += 1
            if part.name == end:
                return Block(head, parts[0].body, tuple(parts[1:]))


def join(values: Iterable[str | None]) -> str | None:
    """A list of these; nothing is known of one too long to be copied as often as code may."""
    known = list(values)
    text = None if None in known else ";".join(map(str, known))
    return None if text is not None and len(text) > LONGEST_VALUE else text


def unescape(text: str) -> str:
    """What the escape sequences in an argument stand for."""
    return re.sub(r"\\(.)", _stand_for, text) if "\\" in text else text


def _stand_for(found: re.Match[str]) -> str:
    return {"n": "\n", "t": "\t", "r": "\r", ";": "\\;"}.get(found[1], found[1])
