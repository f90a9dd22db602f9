"""Literal paths in a C++ archive's files for CMake and pkg-config.

Nothing is executed. In CMake's code only commands outside of conditions count, since their values
are the same on every system; the probe of C++ consumers runs CMake. The grammars are those of
cmake-language(7) and pkg-config(1).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from binary_checks.model import (
    BuildFiles,
    NamedPath,
    PathRole,
    StatedAbi,
    UnreadCode,
)

_MOST_CANDIDATES = 16  # places that are tried for a path below the import prefix
_MOST_EXPANDED = 16 << 20  # characters of all values in a package's pkg-config files
_EXPORT = re.compile(r"(?:targets|exports?|config)[^/]*\.cmake\Z", re.IGNORECASE)
"""Names of files that describe targets: those that CMake exports or ``find_package`` reads."""
_MODULE = re.compile(r"(?:^|/)Find[^/]*\.cmake\Z|/Modules[^/]*/")
"""Modules that search users' systems for other packages; they may name the usual folders."""
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
_COMMAND = re.compile(r"[A-Za-z_]\w*")
_BLOCKS = frozenset({"if", "foreach", "while", "macro", "function"})
_ENDS = frozenset(f"end{name}" for name in _BLOCKS)
_ROLES: Mapping[str, PathRole] = {
    "IMPORTED_LOCATION": PathRole.LOCATION,
    "IMPORTED_IMPLIB": PathRole.LOCATION,
    "IMPORTED_OBJECTS": PathRole.LOCATION,
    "INTERFACE_INCLUDE_DIRECTORIES": PathRole.INCLUDE,
    "INTERFACE_SYSTEM_INCLUDE_DIRECTORIES": PathRole.INCLUDE,
    "INTERFACE_LINK_LIBRARIES": PathRole.LINK,
    "INTERFACE_LINK_DIRECTORIES": PathRole.LINK,
    "INTERFACE_LINK_OPTIONS": PathRole.LINK,
    "IMPORTED_LINK_INTERFACE_LIBRARIES": PathRole.LINK,
    "IMPORTED_LINK_DEPENDENT_LIBRARIES": PathRole.LINK,
    "INTERFACE_SOURCES": PathRole.LOCATION,
}
_PROPERTY = re.compile(rf"({'|'.join(_ROLES)})(?:_[A-Z0-9]+)?")
_FOR_USERS = re.compile(r"INCLUDE|LIB|FLAGS|PREFIX|(?<!^)_DIRS?$", re.IGNORECASE)
"""Variables that name the folders of headers and libraries for users."""
_GENERATOR = re.compile(
    r"\$<(?:LINK_ONLY|INSTALL_INTERFACE|TARGET_FILE|COMPILE_LANG[^:<>]*):([^<>]*)>"
)
_SKIPPED = re.compile(r"\$<BUILD_INTERFACE:[^<>]*>")
_PATH = re.compile(
    r"(?:^|[\s=,;:\"LI])"
    r"((?:\$\{(?:_IMPORT_PREFIX|PACKAGE_PREFIX_DIR|CMAKE_CURRENT_LIST_DIR)\}|[A-Za-z]:[/\\]|/)"
    r"[^\s;,\"<>$]*)"
)
_LITERAL = re.compile(r"(?:/[\w.+-]+){2}|[A-Za-z]:[/\\]{1,2}\w")
_ABI = re.compile(r"_GLIBCXX_USE_CXX11_ABI=([01])\b")
_ABI_COMMANDS = frozenset(
    {"set", "list", "string", "add_definitions", "add_compile_options", "set_target_properties"}
    | {"set_property", "target_compile_definitions", "target_compile_options"}
    | {"add_compile_definitions"}
)
_LINE = re.compile(r"\s*([\w.]+)\s*(=|:)\s*(.*)")
_REFERENCE = re.compile(r"\$\{([\w.]+)\}")
_FLAG = re.compile(
    r"(?:^|\s)(-L|-I|-isystem\s*|-Wl,-rpath,|-Wl,-rpath=)?\"?((?:/|[A-Za-z]:[/\\])[^\s\",]*)"
)
_FIELDS = {"cflags": PathRole.INCLUDE, "libs": PathRole.LINK, "libs.private": PathRole.LINK}
_ROOT = "/\ue000/\ue000/\ue000/\ue000"
"""A placeholder for the prefix in any folder. It is deep enough for paths that begin with
``..``.
"""


class _Unreadable(Exception):
    """A file that cannot be parsed, or is too large; the message has the line and the reason."""


class CmakeCommand(NamedTuple):
    """One command of CMake's language."""

    name: str  # in lower case: names of commands are case-insensitive
    arguments: tuple[str, ...]
    line: int
    depth: int  # the number of conditions, loops, macros and functions around it


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def read_build_files(
    texts: Mapping[str, str], paths: Iterable[str], *, top: str = ""
) -> BuildFiles:
    """Return the paths that files for CMake and pkg-config name.

    ``texts`` are the files' contents by path; ``paths`` are all paths of the archive; ``top`` is
    the folder of the archive that is the prefix. Code may contain its name (``../demo/lib``).
    """
    cmake = _CmakeFiles(_with_folders(paths), top)
    pkg_config = _PkgConfigFiles()
    for path, text in sorted(texts.items()):
        if path.endswith(".pc"):
            pkg_config.read(path, text)
        else:
            cmake.read(path, text)
    return BuildFiles(
        paths=(*cmake.paths, *pkg_config.paths),
        abi_flags=tuple(cmake.abi_flags),
        unread=(*cmake.unread, *pkg_config.unread),
    )


def _with_folders(paths: Iterable[str]) -> frozenset[str]:
    found: set[str] = {"."}
    for path in paths:
        place = path.removesuffix("/")
        while place and place not in found:
            found.add(place)
            place = posixpath.dirname(place)
    return frozenset(found)


class _CmakeFiles:
    """The paths and flags in files for CMake, and the files that could not be read."""

    def __init__(self, present: frozenset[str], top: str) -> None:
        self._present, self._top = present, top
        self.paths: list[NamedPath] = []
        self.abi_flags: list[StatedAbi] = []
        self.unread: list[UnreadCode] = []

    def read(self, path: str, text: str) -> None:
        describes = bool(_EXPORT.search(path)) and not _MODULE.search(path)
        if not describes and "_GLIBCXX_USE_CXX11_ABI" not in text:
            return
        try:
            for command in read_commands(text):
                self.abi_flags += _find_abi_flags(path, command)
                if describes and not command.depth:
                    self.paths += self._find_paths(path, command)
        except _Unreadable as error:
            if describes:
                self.unread.append(UnreadCode(file=path, reason=str(error)))

    def _find_paths(self, file: str, command: CmakeCommand) -> Iterator[NamedPath]:
        for role, subject, value in _list_values(command):
            for written in _split(value) if role is not PathRole.VARIABLE else [value]:
                path = self._place(file, written)
                if path is not None:
                    yield NamedPath(
                        file=file, line=command.line, role=role, subject=subject, path=path
                    )

    def _place(self, file: str, written: str) -> str | None:
        """Return a path relative to the prefix; return a path outside of the archive as written."""
        if not written.startswith("${"):
            return written.rstrip("/\\") or None  # the root folder is not reported
        variable, _, rest = written[2:].partition("}")
        folder = posixpath.dirname(file)
        if variable == "CMAKE_CURRENT_LIST_DIR":
            return self._count_from(folder, rest)
        # The import prefix is a folder above the file; only CMake computes which one.
        sibling, inside = self._count_from("..", rest), self._count_from("", rest)
        candidates = [sibling, inside]
        while folder and len(candidates) < _MOST_CANDIDATES:
            candidates.append(self._count_from(folder, rest))
            folder = posixpath.dirname(folder)
        usual = inside if sibling.startswith("../") else sibling
        return next((path for path in candidates if path in self._present), usual)

    def _count_from(self, folder: str, rest: str) -> str:
        path = posixpath.normpath(posixpath.join(_ROOT, folder) + rest)
        prefixes = [_ROOT]
        if self._top:
            prefixes.append(posixpath.join(posixpath.dirname(_ROOT), self._top))
        for prefix in prefixes:
            if path == prefix:
                return "."
            if path.startswith(f"{prefix}/"):
                return path.removeprefix(f"{prefix}/")
        return "../"


def _list_values(command: CmakeCommand) -> Iterator[tuple[PathRole, str, str]]:
    """Yield the values of properties that a target's users inherit, and of variables for users."""
    name, values = command.name, command.arguments
    if name == "set_target_properties" and "PROPERTIES" in values:
        rest = values[values.index("PROPERTIES") + 1 :]
        yield from _of_properties(values[0], zip(rest[::2], rest[1::2], strict=False))
    elif name == "set_property" and values[:1] == ("TARGET",) and "PROPERTY" in values:
        at = values.index("PROPERTY") + 1
        pairs = ((key, value) for key in values[at : at + 1] for value in values[at + 1 :])
        yield from _of_properties(values[1], pairs)
    elif name == "set" and "CACHE" not in values and _FOR_USERS.search("".join(values[:1])):
        # users may set another value in CMake's cache
        for value in filter(_LITERAL.match, values[1:]):
            yield PathRole.VARIABLE, values[0], value


def _of_properties(
    target: str, pairs: Iterable[tuple[str, str]]
) -> Iterator[tuple[PathRole, str, str]]:
    for key, value in pairs:
        if found := _PROPERTY.fullmatch(key):
            yield _ROLES[found[1]], f"{key} of {target}", value


def _split(value: str) -> Iterator[str]:
    """Yield the paths in a list, including those inside a generator expression."""
    value = value.replace("\\$", "$")
    for item in _SKIPPED.sub("", value).split(";"):
        plain = _GENERATOR.sub(r"\1", item).strip("\"' ")
        yield from (found[1] for found in _PATH.finditer(plain))


def _find_abi_flags(file: str, command: CmakeCommand) -> Iterator[StatedAbi]:
    if command.name in _ABI_COMMANDS:
        for argument in command.arguments:
            for found in _ABI.finditer(argument):
                yield StatedAbi(file=file, line=command.line, value=found[1] == "1")


def read_commands(text: str) -> Iterator[CmakeCommand]:
    """Yield the commands of a file in order. Raises _Unreadable."""
    tokens, depth = _iter_tokens(text), 0
    for token in tokens:
        if token.kind != "word" or not _COMMAND.fullmatch(token.text):
            raise _Unreadable(f"line {token.line}: not a command: {token.text[:40]!r}")
        name = token.text.lower()
        arguments = tuple(_read_arguments(tokens, token.line))
        depth = max(depth - (name in _ENDS), 0)  # ignore an unmatched end
        yield CmakeCommand(name, arguments, token.line, depth)
        depth += name in _BLOCKS


def _read_arguments(tokens: Iterator[_Token], line: int) -> Iterator[str]:
    opening = next(tokens, None)
    if opening is None or opening.text != "(" or opening.kind != "parenthesis":
        raise _Unreadable(f"line {line}: a command without a parenthesis")
    depth = 1
    for token in tokens:
        if token.kind == "parenthesis":
            depth += 1 if token.text == "(" else -1
            if not depth:
                return
        yield token.text
    raise _Unreadable(f"line {line}: a parenthesis has no end")


def _iter_tokens(text: str) -> Iterator[_Token]:
    at, line = 0, 1
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise _Unreadable(f"line {line}: a text in quotes has no end")
        kind, end = str(found.lastgroup), found.end()
        if kind in {"opening", "marks"}:
            close = f"]{found['marks']}]"
            end = text.find(close, found.end())
            if end < 0:
                raise _Unreadable(f"line {line}: a bracket has no end")
            if not found[0].startswith("#"):
                yield _Token("bracket", text[found.end() : end].removeprefix("\n"), line)
            end += len(close)
        elif kind not in {"space", "comment"}:
            yield _Token(kind, found[kind], line)
        line += text.count("\n", at, end)
        at = end


class _PkgConfigFiles:
    """The paths in pkg-config files, and the files that were not read to their end."""

    def __init__(self) -> None:
        self.paths: list[NamedPath] = []
        self.unread: list[UnreadCode] = []
        self._left = _MOST_EXPANDED

    def read(self, path: str, text: str) -> None:
        """Add the absolute paths in a file, and those below the prefix, in order."""
        try:
            self.paths += self._read_lines(path, text)
        except _Unreadable as error:
            self.unread.append(UnreadCode(file=path, reason=str(error)))

    def _read_lines(self, path: str, text: str) -> Iterator[NamedPath]:
        folder = posixpath.join(_ROOT, posixpath.dirname(path))
        values = {"pcfiledir": folder}
        # values relative to the file; the value of any other variable is "$"
        kept = {"pcfiledir": folder}
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
                # A path below a variable is reported at the line of the variable.
                for flag in _FLAG.finditer(self._expand(written, kept)):
                    yield _name(path, number, role, name, flag[2])

    def _expand(self, text: str, values: Mapping[str, str]) -> str:
        parts, length, at = list[str](), 0, 0
        for found in _REFERENCE.finditer(text):
            parts += (text[at : found.start()], values.get(found[1], ""))
            length, at = length + len(parts[-1]), found.end()
        self._left -= length + len(text)
        if self._left < 0:
            raise _Unreadable(f"the values of pkg-config have over {_MOST_EXPANDED} characters")
        return "".join((*parts, text[at:]))


def _name(file: str, line: int, role: PathRole, subject: str, path: str) -> NamedPath:
    place = posixpath.normpath(path.rstrip("/") or path)
    if place == _ROOT or place.startswith(f"{_ROOT}/"):
        path = place[len(_ROOT) + 1 :] or "."
    elif "\ue000" in place:
        path = "../"
    return NamedPath(file=file, line=line, role=role, subject=subject, path=path.rstrip("/") or "/")
