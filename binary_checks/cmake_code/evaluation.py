"""Follows CMake's code from a package's file as ``find_package`` would, as far as that is certain.

Nothing runs. A variable has a value where every way to it is known; a condition that depends on the
user's system is taken both ways, and what lies behind it is not certain.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from binary_checks.cmake_code.language import (
    LONGEST_VALUE,
    Argument,
    Block,
    CmakeCommand,
    Node,
    join,
    unescape,
)
from binary_checks.cmake_code.truth import SYSTEMS, Known, decide

ROOT: Final = "/\ue000/\ue000/\ue000/\ue000"
"""Stands for the prefix, wherever users unpack it; deep enough for what climbs out of it."""
_MOST_STEPS = 200_000  # commands, and variables that are copied, from one package's file on
_DEEPEST = 40  # files, macros and functions within each other
_REFERENCE = re.compile(r"\$\{([\w./+-]+)\}|\$(ENV)\{[^}]*\}|\$CACHE\{[^}]*\}")
_PATH_OF = {"PATH": posixpath.dirname, "DIRECTORY": posixpath.dirname, "NAME": posixpath.basename}
_OWN_MODULE = re.compile(r"CMake\w+\Z|FindPackageHandleStandardArgs\Z|GNUInstallDirs\Z")
_UNKNOWN_OUTPUT = frozenset(
    {"find_library", "find_path", "find_program", "find_file", "separate_arguments", "option"}
    | {"get_target_property", "get_property", "execute_process", "try_compile", "math"}
)
"""What sets the variable that it names first to something only the user's system tells."""

Values = dict[str, str | None]


class Seen(NamedTuple):
    """A command that was come to, with what its arguments stand for."""

    file: str
    command: CmakeCommand
    values: tuple[str | None, ...]  # None for what is not known
    certain: bool


class CodeAround(NamedTuple):
    """What is asked of the archive whose files these are."""

    code: Callable[[str], tuple[Node, ...] | None]  # of a file, None where that cannot be read
    paths: frozenset[str]  # of its files and directories
    packages: Mapping[str, str]  # by the name in lower case the file that find_package() finds
    top: str = ""  # the folder that it is packed in, by which code may name it: ``../demo/lib``
    system: str = ""  # "linux", "macos", "windows", where it is for one alone


class TooMuchCode(Exception):
    """More code than is followed."""


class _Returned(Exception):
    """The file, or the function, ends here."""


class _Stopped(Exception):
    """CMake ends here."""


def locate(path: str, top: str = "") -> str | None:
    """A path as it counts from the prefix; None for a relative one, whose place is not known.

    ``../`` stands for all that lies outside of it; beside it lies what is in its own folder.
    """
    if not path.startswith("/"):
        return None
    normal = posixpath.normpath(path)
    beside = posixpath.join(posixpath.dirname(ROOT), top) if top else ROOT
    for folder in (ROOT, beside):
        if normal == folder:
            return "."
        if normal.startswith(f"{folder}/"):
            return normal.removeprefix(f"{folder}/")
    return "../" if "\ue000" in normal else normal


class Evaluation:
    """One run of ``find_package`` that no CMake makes."""

    def __init__(self, archive: CodeAround) -> None:
        self._archive = archive
        self._values: Values = dict(SYSTEMS.get(archive.system, {}))
        self._targets: dict[str, bool] = {}  # and whether that is certain
        self._foreign = False  # code was come to that is not in the archive
        self._macros: dict[str, Block] = {}
        self._certain = True
        self._depth = 0
        self.steps = 0  # so far
        self._file = ""
        self._active: list[str] = []
        self.seen: list[Seen] = []
        self.lost: list[str] = []  # files that were come to and cannot be read

    def run(self, path: str) -> None:
        """Follow the code of a file. Raises TooMuchCode."""
        with suppress(_Stopped, _Returned):
            self._include(path)

    def _include(self, path: str) -> None:
        if path in self._active:
            return
        nodes = self._archive.code(path)
        if nodes is None:
            self.lost.append(path)
            return
        outer, own = self._file, ("CMAKE_CURRENT_LIST_FILE", "CMAKE_CURRENT_LIST_DIR")
        before = {name: self._values.get(name) for name in own}
        self._file = path
        whole = posixpath.join(ROOT, path)
        self._values["CMAKE_CURRENT_LIST_FILE"] = whole
        self._values["CMAKE_CURRENT_LIST_DIR"] = posixpath.dirname(whole)
        self._active.append(path)
        try:
            with self._deeper():
                self._follow(nodes)
        except _Returned:
            pass
        finally:
            self._file = outer
            self._active.pop()
            self._values.update(before)

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise TooMuchCode(f"more than {_DEEPEST} files and macros lie within each other")
        try:
            yield
        finally:
            self._depth -= 1

    def _count(self, steps: int = 1) -> None:
        self.steps += steps
        if self.steps > _MOST_STEPS:
            raise TooMuchCode(f"it takes more than {_MOST_STEPS} steps")

    def _follow(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            self._count()
            if isinstance(node, CmakeCommand):
                self._run(node)
            else:
                self._enter(node)

    def _enter(self, block: Block) -> None:
        name = block.head.name
        if name == "if":
            self._branch([block, *block.branches])
        elif name == "foreach":
            self._loop(block)
        elif name == "while":
            self._maybe(block.body)
        elif name in {"macro", "function"}:
            if block.head.arguments:
                self._macros[block.head.arguments[0].text.lower()] = block
        else:
            self._follow(block.body)

    def _branch(self, branches: list[Block]) -> None:
        """The one branch that is taken, or each that may be."""
        with ExitStack() as doubts:
            for branch in branches:
                is_else = branch.head.name == "else"
                found = True if is_else else decide(branch.head.arguments, self._known)
                if found:
                    self._follow(branch.body)
                    return
                if found is None:
                    self._maybe(branch.body)
                    doubts.enter_context(self._in_doubt())  # whether a later one is come to

    def _maybe(self, body: Iterable[Node]) -> None:
        with self._in_doubt():
            self._follow(body)

    @contextmanager
    def _in_doubt(self) -> Iterator[None]:
        """What is set here may be set or not: afterwards only what stays the same is known."""
        before, certain = dict(self._values), self._certain
        self._count(len(before))
        self._certain = False
        try:
            yield
        except (_Returned, _Stopped):
            pass  # perhaps: what follows may be come to all the same
        finally:
            self._certain = certain
            names = [name for name in self._values if name not in before]
            names += [name for name, value in before.items() if self._values.get(name) != value]
            self._values.update(dict.fromkeys(names))

    def _loop(self, block: Block) -> None:
        """Once for each value; of a list that is not known once in doubt."""
        variable, *rest = block.head.arguments or (Argument(""),)
        items = self._list_items([each.text for each in rest], rest)
        before = self._values.get(variable.text)
        if items is None:
            self._values[variable.text] = None
            self._maybe(block.body)
        else:
            for item in items:
                self._values[variable.text] = item
                self._follow(block.body)
        self._values[variable.text] = before

    def _list_items(self, words: list[str], rest: list[Argument]) -> list[str] | None:
        if words[:1] == ["RANGE"] or "ZIP_LISTS" in words:
            return None
        if words[:2] == ["IN", "LISTS"] and "ITEMS" not in words:
            values = [self._values.get(name) for name in self._expand_all(rest[2:]) if name]
        else:
            values = list(self._expand_all(rest[2:] if words[:2] == ["IN", "ITEMS"] else rest))
        if None in values:
            return None
        return [item for value in values if value for item in value.split(";") if item]

    @property
    def _known(self) -> Known:
        return Known(
            expand=self._expand,
            value=self._values.get,
            is_set=lambda name: True if self._values.get(name) else None,
            exists=self._exists,
            has_target=self._has_target,
        )

    def _has_target(self, name: str) -> bool | None:
        """Whether there is a target in a project that has looked for nothing else before."""
        if name in self._targets:
            return True if self._targets[name] else None
        return None if self._foreign else False

    def _exists(self, path: str) -> bool | None:
        place = self.place(path)
        return None if place is None or place.startswith(("/", "../")) else self.has(place)

    def has(self, path: str) -> bool:
        """Whether the archive has a file or a directory there."""
        return path in self._archive.paths

    def place(self, path: str) -> str | None:
        """A path relative to the prefix; None for a relative one, whose place is not known."""
        return locate(path, self._archive.top)

    def _expand(self, argument: Argument) -> str | None:
        if argument.bracket:
            return argument.text
        text, missing = argument.text, False
        for _ in range(8):  # ${a_${b}}

            def stand_for(found: re.Match[str]) -> str:
                nonlocal missing
                value = self._values.get(found[1]) if found[1] else "" if found[2] else None
                missing = missing or value is None
                return value or ""

            replaced = _REFERENCE.sub(stand_for, text)
            self._count(len(replaced) // 1000)
            if missing or len(replaced) > LONGEST_VALUE:
                return None
            if replaced == text:
                break
            text = replaced
        return unescape(text)

    def _expand_all(self, arguments: Iterable[Argument]) -> tuple[str | None, ...]:
        return tuple(map(self._expand, arguments))

    def _run(self, command: CmakeCommand) -> None:
        self._count(len(command.arguments) // 10)
        values = self._expand_all(command.arguments)
        self.seen.append(Seen(self._file, command, values, self._certain))
        if (macro := self._macros.get(command.name)) is not None:
            self._call(macro, values)
        elif (known := getattr(self, f"_do_{command.name}", None)) is not None:
            known(values)
        elif command.name in _UNKNOWN_OUTPUT and values and values[0]:
            self._values[values[0]] = None

    def _call(self, macro: Block, values: tuple[str | None, ...]) -> None:
        """A function keeps its variables; of what it sets for its caller nothing is known."""
        names = [each.text for each in macro.head.arguments[1:]]
        before = dict(self._values)
        self._count(len(before))
        rest = values[len(names) :]
        self._values.update(zip(names, values, strict=False))
        self._values["ARGN"] = None if None in rest else ";".join(map(str, rest))
        self._values["ARGV"] = None if None in values else ";".join(map(str, values))
        own = {*names, "ARGN", "ARGV"}
        try:
            with self._deeper():
                self._follow(macro.body)
        except _Returned:
            if macro.head.name == "macro":
                raise
        finally:
            if macro.head.name == "function":
                self._values = before
            else:
                self._values.update({name: before.get(name) for name in own})

    def _do_set(self, values: tuple[str | None, ...]) -> None:
        if values and values[0]:
            rest = values[1:]
            end = next((n for n, v in enumerate(rest) if v in {"CACHE", "PARENT_SCOPE"}), len(rest))
            of_user = end < len(rest)  # whose cache may have another value
            self._values[values[0]] = None if of_user else join(rest)

    def _do_unset(self, values: tuple[str | None, ...]) -> None:
        if values and values[0]:
            self._values[values[0]] = ""

    def _do_list(self, values: tuple[str | None, ...]) -> None:
        """Only what is appended is followed."""
        if len(values) < 2 or not values[1]:
            return
        before, rest = self._values.get(values[1]), values[2:]
        own = (before,) if before else ()
        self._values[values[1]] = join((*own, *rest)) if values[0] == "APPEND" else None

    def _do_string(self, values: tuple[str | None, ...]) -> None:
        for value in values[1:]:  # which of them is its output depends on the operation
            if value and value in self._values:
                self._values[value] = None

    def _do_get_filename_component(self, values: tuple[str | None, ...]) -> None:
        if len(values) < 3 or not values[0]:
            return
        path, mode = values[1], values[2]
        found: str | None = None
        if path is not None and mode in _PATH_OF:
            found = _PATH_OF[mode](path)
        elif path is not None and mode in {"ABSOLUTE", "REALPATH"} and path.startswith("/"):
            found = posixpath.normpath(path)
        self._values[values[0]] = found

    def _do_file(self, values: tuple[str | None, ...]) -> None:
        if len(values) < 2 or not values[1]:
            return
        found: str | None = None
        if values[0] == "GLOB" and len(values) > 2 and None not in values[2:]:
            patterns = [self.place(str(each)) for each in values[2:]]
            if None not in patterns:
                found = ";".join(self._glob([str(each) for each in patterns]))
        self._values[values[1]] = found

    def _glob(self, patterns: list[str]) -> Iterator[str]:
        for pattern in patterns[:10]:
            folder = posixpath.dirname(pattern)
            for path in sorted(self._archive.paths):
                if posixpath.dirname(path) == folder and fnmatchcase(path, pattern):
                    yield posixpath.join(ROOT, path)
        self._count(len(self._archive.paths) // 10)

    def _do_include(self, values: tuple[str | None, ...]) -> None:
        place = self.place(values[0]) if values and values[0] else None
        if place is not None and self.has(place):
            self._include(place)
        elif place is None or place.startswith(("/", "../")):
            # CMake's own modules define macros, and no targets.
            self._foreign = self._foreign or not (values and _OWN_MODULE.match(values[0] or ""))
        elif self._certain and "OPTIONAL" not in values:
            raise _Stopped

    def _do_find_package(self, values: tuple[str | None, ...]) -> None:
        path = self._archive.packages.get(values[0].lower()) if values and values[0] else None
        if path is not None:
            self._include(path)
        else:
            self._foreign = True

    _do_find_dependency = _do_find_package

    def _do_return(self, _: tuple[str | None, ...]) -> None:
        raise _Returned

    def _do_message(self, values: tuple[str | None, ...]) -> None:
        if values[:1] == ("FATAL_ERROR",):
            raise _Stopped

    def _do_add_library(self, values: tuple[str | None, ...]) -> None:
        if values and values[0]:
            self._targets[values[0]] = self._certain or self._targets.get(values[0], False)

    _do_add_executable = _do_add_library
