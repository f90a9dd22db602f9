"""Which headers include others that should lie beside them and do not: directives in, facts out.

No preprocessor runs: what stands under a condition is left alone, and so is whatever another
package or the system could have.
"""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from binary_checks.model.packages import Headers, LostInclude

_DIRECTIVE = re.compile(
    rb"\n[ \t]*#[ \t]*((?:include|if|ifdef|ifndef|elif|else|endif)\b[^\n]*)"
)  # begins with one letter, for which the search is four times as quick as for the start of a line
_RAW = re.compile(rb'R"([^()\\\s]{0,16})\(')
_INCLUDE = re.compile(r'include\s*([<"])([^<>"\n]+)[>"]')
_INCLUDED = re.compile(rb'(?:^|\n)include\s*([<"][^<>"\n]+)')
_PLATFORMS = frozenset({"sys", "linux", "asm", "mach", "arpa", "net", "netinet", "bits", "gnu"})
_LONGEST_NAME = 300
_MARKS = (b"#", b"/*", b'R"')
_MOST_MARKS = 500_000  # of a header, for each of which some hundred bytes are taken
_MOST_LOST = 10_000
_MOST_ENDLESS = 8  # raw strings without an end, each of which takes a search to the end


class TooManyMarks(Exception):
    """A header has more directives, comments and raw strings than are followed."""


def condense(content: bytes) -> bytes:
    """Return the directives of a header that include others or are conditions, a line each.

    Raises TooManyMarks.
    """
    if sum(map(content.count, _MARKS)) > _MOST_MARKS:
        raise TooManyMarks(
            f"it has more than {_MOST_MARKS} directives, comments and raw strings, which are not "
            "followed"
        )
    if b'R"' in content:
        content = _leave_out_raw(content)
    if b"\\\n" in content:
        content = content.replace(b"\\\n", b" ")
    if b"/*" in content:
        first, *rest = content.split(b"/*")  # each begins inside of a comment
        content = b"".join((first, *(part.partition(b"*/")[2] for part in rest)))
    return b"\n".join(
        found[:_LONGEST_NAME].rstrip() for found in _DIRECTIVE.findall(b"\n" + content)
    )


def _leave_out_raw(content: bytes) -> bytes:
    """The text without its raw strings; each end that is not there is looked for once."""
    kept, at, endless = list[bytes](), 0, set[bytes]()
    for found in _RAW.finditer(content):
        end = b")" + found[1] + b'"'
        if found.start() < at or end in endless:
            continue
        closed = content.find(end, found.end())
        if closed < 0 and len(endless) > _MOST_ENDLESS:
            break  # no header, but a trap
        if closed < 0:
            endless.add(end)
            continue
        kept += (content[at : found.start()], b'""')
        at = closed + len(end)
    return b"".join((*kept, content[at:]))


class _Include(NamedTuple):
    written: str
    name: str
    quoted: bool


def find_lost(condensed: Mapping[str, bytes], shipped: frozenset[str], root: str) -> Headers:
    """What headers include that is not there: their condensed texts, and all paths of the archive.

    ``root`` is the folder of headers.
    """
    known = _Shipped(shipped, root)
    lost: list[LostInclude] = []
    suspects = _Suspects(known)
    for path, text in sorted(condensed.items()):
        # Nearly all of them include nothing but what is there.
        lines = text.decode("utf-8", "replace").splitlines() if suspects.are_in(text) else []
        for include in _unconditional(lines):
            if len(lost) < _MOST_LOST and known.lacks(include):
                lost.append(LostInclude(path=path, included=include.written))
    return Headers(count=len(condensed), lost=tuple(lost))


def _unconditional(lines: list[str]) -> Iterator[_Include]:
    """The includes that are under no condition but the guard around all of the header."""
    depth, guarded = 0, _is_guarded(lines)
    for line in lines:
        if line.startswith("if"):
            depth += 1
        elif line.startswith("endif"):
            depth -= 1
        elif depth == guarded and (found := _INCLUDE.match(line)):
            close = '"' if found[1] == '"' else ">"
            yield _Include(f"{found[1]}{found[2]}{close}", found[2].strip(), found[1] == '"')


def _is_guarded(lines: list[str]) -> bool:
    """Whether its first condition is the usual one, and ends where the header ends.

    Directives that do not fit together are taken for one, so that nothing counts.
    """
    depths, depth = [], 0
    for line in lines:
        depth += line.startswith("if") - line.startswith("endif")
        depths.append(depth)
    if not lines or depth or min(depths) < 0:
        return True
    opens = lines[0].startswith(("ifndef", "if !defined", "if !(defined"))
    return (
        opens
        and 0 not in depths[:-1]
        and not any(
            each == 1 and line.startswith(("else", "elif"))
            for each, line in zip(depths, lines, strict=True)
        )
    )


class _Suspects:
    """What may be missing wherever it is included from: each name is looked up once."""

    def __init__(self, known: _Shipped) -> None:
        self._known = known
        self._found: dict[bytes, bool] = {}

    def are_in(self, text: bytes) -> bool:
        """Whether a header includes one of them."""
        return any(self._is_one(written) for written in _INCLUDED.findall(text))

    def _is_one(self, written: bytes) -> bool:
        if written not in self._found:
            name = written[1:].decode("utf-8", "replace").strip()
            include = _Include("", name, written.startswith(b'"'))
            self._found[written] = self._known.lacks(include)
        return self._found[written]


class _Shipped:
    """The files of an archive, by every end of their paths."""

    def __init__(self, paths: frozenset[str], root: str) -> None:
        self._reversed = sorted(f"/{path}"[::-1] for path in paths)
        self._root = root
        self._folders = {path.rpartition("/")[0] for path in paths}
        inside = (path.removeprefix(f"{root}/") for path in paths if path.startswith(f"{root}/"))
        self._tops = {path.partition("/")[0] for path in inside if "/" in path}

    def lacks(self, include: _Include) -> bool:
        """Whether it is nowhere, and no other package would have it."""
        name = posixpath.normpath(include.name)
        end = "/" + name.lstrip("./")
        at = bisect_left(self._reversed, end[::-1])
        if any(path.startswith(end[::-1]) for path in self._reversed[at : at + 1]):
            return False
        top, slash, _ = name.partition("/")
        if top == "..":
            return include.quoted
        if not slash or top not in self._tops or top in _PLATFORMS:
            return False
        # Another project may have a folder of its own beside: boost/numeric/mtl.
        return include.quoted or f"{self._root}/{name.rpartition('/')[0]}" in self._folders
