"""Which paths a pkg-config file names: a text in, facts out.

The format is that of pkg-config(1): variables, and fields whose flags compilers and linkers get.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping

from binary_checks.cmake_code.evaluation import ROOT, locate
from binary_checks.model.cmake import NamedPath, PathRole

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
_MOST_LINES = 10_000
_LONGEST = 10_000  # characters of a value


def read_pkg_config(path: str, text: str) -> Iterator[NamedPath]:
    """The absolute paths in it, and those in the prefix; in the order of its lines."""
    folder = posixpath.join(ROOT, posixpath.dirname(path))
    values: dict[str, str] = {"pcfiledir": folder}
    for number, line in enumerate(text.splitlines()[:_MOST_LINES], 1):
        found = _LINE.fullmatch(line.partition("#")[0].rstrip())
        if found is None:
            continue
        name, sign, written = found[1], found[2], found[3]
        value = _expand(written, values)
        if sign == "=":
            values[name] = value
            if re.match(r"/|[A-Za-z]:[/\\]", written):
                yield _name(path, number, PathRole.VARIABLE, name, value)
        elif (role := _FIELDS.get(name.lower())) is not None:
            # What counts from a variable is told of where that stands.
            for flag in _FLAG.finditer(_expand(written, {**_blank(values), "pcfiledir": folder})):
                yield _name(path, number, role, name, flag[2])


def _blank(values: Mapping[str, str]) -> dict[str, str]:
    """The variables, of which only those that count from the file itself have their values."""
    return {name: value if "\ue000" in value else "$" for name, value in values.items()}


def _expand(text: str, values: Mapping[str, str]) -> str:
    text = text[:_LONGEST]
    parts, length, at = list[str](), 0, 0
    for found in _REFERENCE.finditer(text):
        parts += (text[at : found.start()], values.get(found[1], ""))
        length, at = length + len(parts[-1]), found.end()
        if length > _LONGEST:
            break
    return "".join((*parts, text[at:]))[:_LONGEST]


def _name(file: str, line: int, role: PathRole, subject: str, path: str) -> NamedPath:
    place = locate(path.rstrip("/")) or path
    return NamedPath(file=file, line=line, role=role, subject=subject, path=place)
