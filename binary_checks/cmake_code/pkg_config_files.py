"""Which paths the pkg-config files of a package name: texts in, facts out.

The format is that of pkg-config(1): variables, and fields whose flags compilers and linkers get.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from itertools import islice

from binary_checks.cmake_code.evaluation import ROOT, TooMuchCode, locate
from binary_checks.model.cmake import NamedPath, PathRole, UnreadCode

_LINE = re.compile(r"\s*([\w.]+)\s*(=|:)\s*(.*)")
_REFERENCE = re.compile(r"\$\{([\w.]+)\}")
_FLAG = re.compile(
    r"(?:^|\s)(-L|-I|-isystem\s*|-Wl,-rpath,|-Wl,-rpath=)?\"?((?:/|[A-Za-z]:[/\\])[^\s\",]*)"
)
_FIELDS = {
    "cflags": PathRole.INCLUDE,
    "libs": PathRole.LINK,
    "libs.private": PathRole.LINK,
}
_LONGEST = 10_000  # characters of a value
_MOST_EXPANDED = 16 << 20  # characters of all values of a package
_MOST_PATHS = 20_000


class PkgConfigFiles:
    """The paths that the files name, and the files that were not read to their end."""

    def __init__(self) -> None:
        self.paths: list[NamedPath] = []
        self.unread: list[UnreadCode] = []
        self._left = _MOST_EXPANDED

    def read(self, path: str, text: str) -> None:
        """Take the absolute paths in a file, and those in the prefix, in the order of its lines."""
        found = self._read_lines(path, text)
        try:
            self.paths += islice(found, _MOST_PATHS - len(self.paths))
            if next(found, None) is not None:
                raise TooMuchCode(f"the package's pkg-config files name over {_MOST_PATHS} paths")
        except TooMuchCode as error:
            self.unread.append(UnreadCode(file=path, reason=str(error), reached=True))

    def _read_lines(self, path: str, text: str) -> Iterator[NamedPath]:
        folder = posixpath.join(ROOT, posixpath.dirname(path))
        values = {"pcfiledir": folder}
        kept = {"pcfiledir": folder}  # what counts from the file itself; others are "$"
        for number, line in enumerate(text.splitlines(), 1):
            found = _LINE.fullmatch(line.partition("#")[0].rstrip())
            if found is None:
                continue
            name, sign, written = found[1], found[2], found[3]
            if sign == "=":
                value = values[name] = self._expand(written, values)
                kept[name] = value if "\ue000" in value else "$"
                if re.match(r"/|[A-Za-z]:[/\\]", written):
                    yield _name(path, number, PathRole.VARIABLE, name, value)
            elif (role := _FIELDS.get(name.lower())) is not None:
                # What counts from a variable is reported where that stands.
                for flag in _FLAG.finditer(self._expand(written, kept)):
                    yield _name(path, number, role, name, flag[2])

    def _expand(self, text: str, values: Mapping[str, str]) -> str:
        text = text[:_LONGEST]
        parts, length, at = list[str](), 0, 0
        for found in _REFERENCE.finditer(text):
            parts += (text[at : found.start()], values.get(found[1], ""))
            length, at = length + len(parts[-1]), found.end()
            if length > _LONGEST:
                break
        self._left -= length + len(text)
        if self._left < 0:
            raise TooMuchCode(f"the values of pkg-config have over {_MOST_EXPANDED} characters")
        return "".join((*parts, text[at:]))[:_LONGEST]


def _name(file: str, line: int, role: PathRole, subject: str, path: str) -> NamedPath:
    place = locate(path.rstrip("/")) or path
    return NamedPath(file=file, line=line, role=role, subject=subject, path=place)
