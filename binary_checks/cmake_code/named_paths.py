"""Which paths an archive's files for CMake name, and for what: texts in, facts out."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from binary_checks.cmake_code.evaluation import CodeAround, Evaluation, Seen, TooMuchCode, locate
from binary_checks.cmake_code.language import Argument, CmakeCommand, CmakeSyntaxError, Node, parse
from binary_checks.cmake_code.language import Block as _Block
from binary_checks.model.cmake import BuildFiles, NamedPath, PathRole, StatedAbi, UnreadCode

LONGEST: Final = 4 << 20  # bytes of one file
_MOST_PATHS = 20_000  # that are told of
_MOST_CODE = 16 << 20  # characters of all files; torch has 0.3 MB
_MOST_STEPS = 2_000_000  # of all evaluations; torch takes 6,500
_MODULE = re.compile(r"(?:^|/)Find[^/]*\.cmake\Z|/Modules[^/]*/")
"""What searches users' systems for others' packages: it may name the usual places."""
_EXPORT = re.compile(r"(?:targets|exports?|config)[^/]*\.cmake\Z", re.IGNORECASE)
"""What describes targets, by its name: with no package that leads there it is looked at, too."""
_ABI = re.compile(r"_GLIBCXX_USE_CXX11_ABI=([01])\b")
_ABSOLUTE = re.compile(r"(?:^|[\s=,;:\"LI])((?:/|[A-Za-z]:[/\\])[^\s;,\"<>$]*)")
_GENERATOR = re.compile(
    r"\$<(?:LINK_ONLY|INSTALL_INTERFACE|TARGET_FILE|COMPILE_LANG[^:]*):([^<>]*)>"
)
_SKIPPED = re.compile(r"\$<BUILD_INTERFACE:[^<>]*>")
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
_TARGET_COMMANDS = {
    "target_include_directories": ("INTERFACE_INCLUDE_DIRECTORIES", PathRole.INCLUDE),
    "target_link_libraries": ("INTERFACE_LINK_LIBRARIES", PathRole.LINK),
    "target_link_directories": ("INTERFACE_LINK_DIRECTORIES", PathRole.LINK),
    "target_link_options": ("INTERFACE_LINK_OPTIONS", PathRole.LINK),
    "target_sources": ("INTERFACE_SOURCES", PathRole.LOCATION),
}
_FOR_USERS = re.compile(r"INCLUDE|LIB|FLAGS|PREFIX|(?<!^)_DIRS?$", re.IGNORECASE)
"""Names of variables that tell users where headers and libraries are."""
_CHECKED = re.compile(r"_(?:cmake_import_check|IMPORT_CHECK)_files_for_", re.IGNORECASE)
_ABI_COMMANDS = frozenset(
    {"set", "list", "string", "add_definitions", "add_compile_options", "set_target_properties"}
    | {"set_property", "target_compile_definitions", "target_compile_options"}
    | {"add_compile_definitions"}
)


class _Named(NamedTuple):
    """A path with what it is for, before it is known who comes there."""

    role: PathRole
    subject: str
    path: str


def read_build_files(
    texts: Mapping[str, str],
    packages: Mapping[str, str],
    paths: Iterable[str],
    *,
    top: str = "",
    system: str = "",
) -> BuildFiles:
    """What the files for CMake say: their texts by their paths, and all paths of the archive.

    ``packages`` are the files that ``find_package`` finds, by the packages' names; ``top`` is the
    folder that the prefix is packed in, ``system`` what it is for, where that is one alone.
    """
    code = _Code(texts)
    archive = CodeAround(code.nodes_of, _with_folders(paths), _by_lower_name(packages), top, system)
    collected = _Collected(top)
    for name, path in sorted(packages.items()):
        evaluation = _evaluate(archive, path, collected)
        collected.add(evaluation.seen, name)
        collected.reached_files.update(evaluation.lost)
    for path in sorted(texts):
        if path not in collected.files and _EXPORT.search(path):
            collected.add(_evaluate(archive, path, collected).seen, "")
    reached = collected.reached_files
    unread = [UnreadCode(file=f, reason=r, reached=f in reached) for f, r in code.unread.items()]
    return BuildFiles(
        paths=tuple(collected.named_paths()),
        abi_flags=tuple(_find_abi_flags(texts, code)),
        unread=(*unread, *collected.unread),
    )


def _by_lower_name(packages: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): path for name, path in packages.items()}


def _with_folders(paths: Iterable[str]) -> frozenset[str]:
    found: set[str] = {"."}
    for path in paths:
        place = path.removesuffix("/")
        while place and place not in found:
            found.add(place)
            place = posixpath.dirname(place)
    return frozenset(found)


class _Code:
    """The files' code, each parsed when it is come to."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._parsed: dict[str, tuple[Node, ...] | None] = {}
        self._left = _MOST_CODE
        self.unread: dict[str, str] = {}

    def nodes_of(self, path: str) -> tuple[Node, ...] | None:
        if path not in self._parsed:
            self._parsed[path] = self._parse(path)
        return self._parsed[path]

    def _parse(self, path: str) -> tuple[Node, ...] | None:
        text = self._texts.get(path)
        if text is None:
            return None
        self._left -= len(text)
        if self._left < 0:
            self.unread[path] = f"the package has more than {_MOST_CODE} characters of it"
            return None
        try:
            return parse(text)
        except CmakeSyntaxError as error:
            self.unread[path] = str(error)
            return None


class _Collected:
    """What all evaluations came to, each line once."""

    def __init__(self, top: str) -> None:
        self._top = top
        self._found: dict[tuple[str, int, _Named], dict[str, bool]] = {}
        self.files: set[str] = set()
        self.reached_files: set[str] = set()
        self.unread: list[UnreadCode] = []
        self.steps = 0  # that all evaluations took together

    def add(self, seen: Iterable[Seen], package: str) -> None:
        for each in seen:
            self.files.add(each.file)
            if package:
                self.reached_files.add(each.file)
            if len(self._found) > _MOST_PATHS:
                return
            for named in _name_paths(each, self._top, exported=bool(package)):
                ways = self._found.setdefault((each.file, each.command.line, named), {})
                if package:
                    ways[package] = ways.get(package, False) or each.certain

    def named_paths(self) -> Iterator[NamedPath]:
        for (file, line, named), ways in sorted(self._found.items(), key=lambda row: row[0][:2]):
            yield NamedPath(
                file=file,
                line=line,
                role=named.role,
                subject=named.subject,
                path=named.path,
                reached=tuple(sorted(ways)),
                certain=any(ways.values()),
            )


def _evaluate(archive: CodeAround, path: str, collected: _Collected) -> Evaluation:
    evaluation = Evaluation(archive)
    if collected.steps > _MOST_STEPS:
        reason = f"all code of the package takes more than {_MOST_STEPS} steps"
        collected.unread.append(UnreadCode(file=path, reason=reason, reached=True))
        return evaluation
    try:
        evaluation.run(path)
    except TooMuchCode as error:
        collected.unread.append(UnreadCode(file=path, reason=str(error), reached=True))
    collected.steps += evaluation.steps
    return evaluation


def _name_paths(seen: Seen, top: str, *, exported: bool) -> Iterator[_Named]:
    """The paths that one command names for those who use the package."""
    name, values = seen.command.name, seen.values
    if _MODULE.search(seen.file) or not values or not values[0]:
        return
    if name == "set_target_properties":
        yield from _of_properties(values[0], _pairs(values), top)
    elif name == "set_property" and values[0] == "TARGET" and "PROPERTY" in values:
        at = values.index("PROPERTY")
        if at > 1 and at + 1 < len(values):
            yield from _of_properties(values[1] or "", [(values[at + 1], values[at + 2 :])], top)
    elif name in _TARGET_COMMANDS and exported and "PRIVATE" not in values:
        written, role = _TARGET_COMMANDS[name]
        yield from _of_value(role, f"{written} of {values[0]}", values[1:], top)
    elif name == "list" and values[0] == "APPEND" and (values[1:2] or ("",))[0]:
        variable = str(values[1])
        if found := _CHECKED.match(variable):
            subject = variable[found.end() :]
            yield from _of_value(PathRole.CHECKED, subject, values[2:], top)
    elif name == "set" and _FOR_USERS.search(values[0]):
        yield from _of_literals(values[0], seen.command.arguments[1:])


def _pairs(values: tuple[str | None, ...]) -> Iterator[tuple[str | None, tuple[str | None, ...]]]:
    if "PROPERTIES" in values:
        rest = values[values.index("PROPERTIES") + 1 :]
        yield from ((key, (value,)) for key, value in zip(rest[::2], rest[1::2], strict=False))


def _of_properties(
    target: str, pairs: Iterable[tuple[str | None, tuple[str | None, ...]]], top: str
) -> Iterator[_Named]:
    for key, values in pairs:
        role = next(
            (r for p, r in _ROLES.items() if key and re.fullmatch(rf"{p}(_\w+)?", key)), None
        )
        if role is not None:
            yield from _of_value(role, f"{key} of {target}", values, top)


def _of_value(
    role: PathRole, subject: str, values: Iterable[str | None], top: str
) -> Iterator[_Named]:
    """The paths in a list; what a generator expression makes of them counts too."""
    for value in values:
        for item in _SKIPPED.sub("", value or "").split(";"):
            plain = _GENERATOR.sub(r"\1", item).strip("\"' ")
            for found in _ABSOLUTE.finditer(plain):
                path = _place(found[1], top)
                if path is not None:
                    yield _Named(role, subject, path)


def _place(path: str, top: str) -> str | None:
    """Relative to the prefix; what lies outside as it stands; None for what is no place."""
    path = path.rstrip("/\\") or "/"
    if path.startswith("/"):
        found = locate(path, top)
        return found if found != "/" else None
    return path


def _of_literals(variable: str, arguments: Iterable[Argument]) -> Iterator[_Named]:
    """Absolute paths that stand in the code itself: ``set(ATEN_INCLUDE_DIR "/build/include")``."""
    for argument in arguments:
        if argument.text in {"CACHE", "PARENT_SCOPE"}:
            return
        if re.match(r"(?:/[\w.+-]+){2}|[A-Za-z]:[/\\]{1,2}\w", argument.text):
            yield _Named(PathRole.VARIABLE, variable, argument.text.rstrip("/"))


def _find_abi_flags(texts: Mapping[str, str], code: _Code) -> Iterator[StatedAbi]:
    for path, text in sorted(texts.items()):
        if "_GLIBCXX_USE_CXX11_ABI" not in text:
            continue
        for command in _each_command(code.nodes_of(path) or ()):
            if command.name in _ABI_COMMANDS:
                for argument in command.arguments:
                    for found in _ABI.finditer(argument.text):
                        yield StatedAbi(file=path, line=command.line, value=found[1] == "1")


def _each_command(nodes: Iterable[Node]) -> Iterator[CmakeCommand]:
    for node in nodes:
        if isinstance(node, _Block):
            for block in (node, *node.branches):
                yield from _each_command(block.body)
        else:
            yield node
