"""Finds paths of the build machine in the bytes of a conda package, while they stream by.

conda-build and rattler-build pad the prefix that they build in with ``_placehold`` until it is 255
characters long, older ones used ``anaconda1anaconda2anaconda3``; what else of the build has a path
lies in ``feedstock_root``, ``conda-bld`` or ``croot``. In objects only prefixes are looked for:
paths of sources stand in the assertions of nearly all. Bytecode has paths that nothing opens.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from binary_checks.model.packages import BuildPath

PLACEHOLDERS = (b"_placehold_placehold", b"anaconda1anaconda2anaconda3")
_FOLDERS = (b"feedstock_root", b"_build_env", b"/conda-bld/", b"/croot/")
_OBJECTS = (
    b"\x7fELF",
    b"MZ",
    b"\xcf\xfa\xed\xfe",
    b"\xce\xfa\xed\xfe",
    b"\xca\xfe\xba\xbe",
    b"!<arch>",
)
_BYTECODE = (".pyc", ".pyo")
_BEFORE = 400  # bytes of a path before the word by which it is found; no prefix is longer
_BEHIND = 1 << 16  # bytes of text after which a NUL is not looked for
_SHOWN = 300  # characters of a path
_BEGINNING = 8000  # bytes, as git has them, in which text has no NUL
_PART = rb"\0-\x20\"'`=:;,<>()\[\]{}|\x7f-\xff"
_FROM_WORD = re.compile(rb"[^" + _PART + rb"]*")
_DELIMITER = re.compile(rb"[" + _PART + rb"]")
_TEXT = re.compile(rb"[\t\n\r\x20-\x7e\x80-\xff]*")
_LONGEST_PATH = 4096
_LONGEST_WORD = 64
_MOST_PREFIXES = 8  # of one file
_SHEBANG = re.compile(rb"#![ \t]*([^\s]{1,4096})")
_VARIABLE_ENDS = (b"}", b")", b"%")
_ABSOLUTE = re.compile(r"[/\\]")
_PREFIX = re.compile(r".*?(?:placehold[\w.-]*|anaconda1anaconda2anaconda3)(?=[/\\]|$)")


class BuildPathScan:
    """Watches the members of one package; ``words`` are looked for in every file besides."""

    def __init__(self, words: Iterable[bytes] = ()) -> None:
        self._words = tuple(words)
        self._files: dict[str, _File] = {}

    def watch(self, name: str) -> Callable[[bytes], object] | None:
        """What is shown the content of the member of that name."""
        if name.startswith("info/") or name.endswith(_BYTECODE):
            return None
        file = self._files[name] = _File(self._words)
        return file.see

    def results(self) -> Iterator[BuildPath]:
        """What was found, by file, once all of them have streamed by."""
        for name, file in sorted(self._files.items()):
            yield from file.describe(name)


class _File:
    """What one file has, and the end of what was seen of it."""

    def __init__(self, words: tuple[bytes, ...]) -> None:
        self._more = words
        self._own = re.compile("|".join(re.escape(word.decode()) for word in words) or "(?!)")
        self._words: tuple[bytes, ...] = ()
        self._rest, self._done = b"", 0  # what is looked at again, and how much of it was found
        self._binary, self._interpreter = False, ""
        self._found: dict[str, BuildPath] = {}  # by prefix

    def see(self, piece: bytes) -> None:
        """Look through the next piece, without what only the one behind it can tell."""
        if piece and not self._words:
            script = _SHEBANG.match(piece)
            self._interpreter = script[1].decode("utf-8", "replace") if script else ""
            is_object = piece.startswith(_OBJECTS)
            self._words = (*PLACEHOLDERS, *self._more, *(() if is_object else _FOLDERS))
            self._binary = is_object or b"\0" in piece[:_BEGINNING]
        self._look(self._rest + piece, whole=False)

    def describe(self, name: str) -> Iterator[BuildPath]:
        """What was found by the end."""
        self._look(self._rest, whole=True)
        self._rest = b""
        for found in self._found.values():
            yield replace(found, path=name, binary=self._binary)

    def _look(self, content: bytes, *, whole: bool) -> None:
        done, known = self._done, _Words(content, self._words)
        text_end = 0
        while (at := known.find(done)) >= 0:
            begin = at - len(_before(content, at))
            end = _FROM_WORD.match(content, at, at + _BEHIND).end()  # type: ignore[union-attr]
            if self._binary and at >= text_end:
                text_end = _TEXT.match(content, at, at + _BEHIND).end()  # type: ignore[union-attr]
            last = max(end, text_end if self._binary else 0)
            if last == len(content) and not whole and last - at < _BEHIND:
                self._rest, self._done = content[begin:], at - begin
                return
            cramped = self._binary and content[text_end : text_end + 1] != b"\0"
            self._note(content, begin, end, cramped=cramped)
            done = max(end, at + 1)
        done = max(done, len(content) - _LONGEST_WORD)
        cut = max(done - _BEFORE, 0)
        self._rest, self._done = content[cut:], done - cut

    def _note(self, content: bytes, begin: int, end: int, *, cramped: bool) -> None:
        text = content[begin : min(end, begin + _LONGEST_PATH)].decode("utf-8", "replace")
        if not _ABSOLUTE.match(text) or content[max(begin - 1, 0) : begin] in _VARIABLE_ENDS:
            return  # the word stands for itself, or behind a variable
        match = self._own.match(text) or _PREFIX.match(text)
        prefix = match[0] if match else ""
        found = self._found.get(prefix)
        if found is not None:
            count, cramps = found.count + 1, found.cramped + cramped
            self._found[prefix] = replace(found, count=count, cramped=cramps)
        elif len(self._found) < _MOST_PREFIXES:
            self._found[prefix] = BuildPath(
                path="",
                text=text[:_SHOWN],
                prefix=prefix,
                cramped=int(cramped),
                shebang=text == self._interpreter,
            )


class _Words:
    """Where each of some words comes next; each part of the content is searched once a word."""

    def __init__(self, content: bytes, words: Iterable[bytes]) -> None:
        self._content = content
        self._next = {word: content.find(word) for word in words}

    def find(self, start: int) -> int:
        """The next place of any of them, -1 where there is none."""
        for word, place in self._next.items():
            if 0 <= place < start:
                self._next[word] = self._content.find(word, start)
        return min((place for place in self._next.values() if place >= 0), default=-1)


def _before(content: bytes, at: int) -> bytes:
    """The part of the path that stands before the word: from its first slash."""
    part, begin = content[max(at - _BEFORE, 0) : at], 0
    for delimiter in _DELIMITER.finditer(part):
        begin = delimiter.end()
    part = part[begin:]
    slashes = [place for place in (part.find(b"/"), part.find(b"\\")) if place >= 0]
    return part[min(slashes) :] if slashes else b""
