"""Names bound by the modules that entry points and shared namespaces refer to."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace

from binary_checks.declaring import gathers
from binary_checks.errors import Unavailable
from binary_checks.gather.member_contents import MemberContents
from binary_checks.knowledge.python_libraries import (
    SHARED_PACKAGES,
    ModuleFiles,
    is_for_tests,
    name_module,
)
from binary_checks.model import (
    ContentRequest,
    Distribution,
    Member,
    ModuleNames,
    PythonModules,
    TreeEntry,
    UnparsedSource,
)
from binary_checks.python_code.parsing import (
    LONGEST,
    FaultyError,
    LeftAloneError,
    read_names,
    tabulate,
)

_MOST_STARS = 300  # modules read only because other modules star-import their names
_TOP_LEVEL = "top_level.txt"
_LONGEST_LIST = 1 << 20  # bytes of entry_points.txt
_SHARED_FILES = tuple(f"{name.replace('.', '/')}/__init__.py" for name in sorted(SHARED_PACKAGES))
_REFERENCE = re.compile(r"\s*([\w.]{1,250})\s*(?::\s*(\w{1,250}))?")


def _may_be_referred(entry: TreeEntry) -> bool:
    return entry.name.endswith(".py")


def _has_entry_points(entry: TreeEntry) -> bool:
    return entry.name.endswith(".dist-info/entry_points.txt")


def _is_shared(entry: TreeEntry) -> bool:
    return entry.name.endswith((*_SHARED_FILES, f".dist-info/{_TOP_LEVEL}"))


MODULES = (
    ContentRequest(chooses=_may_be_referred, longest=LONGEST, only_with=_has_entry_points),
    ContentRequest(chooses=_is_shared, longest=LONGEST),
)
"""Modules requested before the package is read. An entry point may name any module, which may
import its names from any other module.
"""


@gathers(PythonModules, wants=MODULES)
def read_modules(package: Distribution, contents: MemberContents) -> PythonModules:
    """Read the modules that entry points and namespaces refer to. Raises PackageError."""
    return _ModuleReader(package, contents).read()


class _ModuleReader:
    """A reader of the few files whose names matter, and of the modules that they star-import."""

    def __init__(self, package: Distribution, contents: MemberContents) -> None:
        self._package = package
        self._contents = contents
        self._files = package.derive(ModuleFiles)
        self._members = {member.path: member for member in package.members}
        self._unparsed: list[UnparsedSource] = []
        self._asked: dict[str, set[str]] = {}
        for path, name in self._list_asked():
            self._asked.setdefault(path, set()).add(name)
        self._shared = frozenset(self._list_shared_files())
        self._starred: dict[str, ModuleNames | None] = {}

    def read(self) -> PythonModules:
        """Read all modules that entry points and namespaces refer to."""
        contents = self._read_all(self._asked.keys() | self._shared)
        found = (self._read_one(path, content) for path, content in contents)
        names = (each for each in found if each is not None)
        return PythonModules(
            names=tuple(sorted(names, key=lambda each: each.path)),
            unparsed=tuple(sorted(self._unparsed, key=lambda each: each.path)),
            top_level=self._read_top_level(),
        )

    def _read_all(self, chosen: Collection[str]) -> Iterator[tuple[str, bytes]]:
        """Yield the contents of the files at these paths; skip files that cannot be read."""
        allowed: list[Member] = []
        for name, path in self._files.sources.items():
            if path not in chosen or is_for_tests(name.split(".")):
                continue  # users do not import tests
            member = self._members[path]
            try:
                self._require_readable(member)
                allowed.append(member)
            except (LeftAloneError, Unavailable) as error:
                self._leave(path, str(error))
        for member, content in self._contents.each(allowed):
            if isinstance(content, Unavailable):
                self._leave(member.path, str(content))
            else:
                yield member.path, content

    def _require_readable(self, member: Member) -> None:
        """Raise LeftAloneError for a file that is too long, Unavailable for a damaged one."""
        if member.faults:
            raise Unavailable("it cannot be read")
        if member.size > LONGEST:
            raise LeftAloneError(f"it has {member.size} bytes; more than {LONGEST} are not parsed")

    def _read(self, member: Member) -> bytes:
        self._require_readable(member)
        return self._contents.read(member)

    def _leave(self, path: str, reason: str) -> None:
        self._unparsed.append(UnparsedSource(path=path, reason=reason))

    def _read_one(self, path: str, content: bytes) -> ModuleNames | None:
        try:
            names = read_names(path, tabulate(content))
            # numpy binds the names of its entry points itself, but star-imports thirty modules.
            found = self._asked.get(path, set()) <= names.bound
            return names if found else self._follow_stars(names)
        except FaultyError:  # the probe that compiles files reports this error
            return None
        except LeftAloneError as error:
            self._leave(path, str(error))
            return None

    def _follow_stars(self, names: ModuleNames) -> ModuleNames:
        """Add the asked names that a module star-imports from other modules of the package."""
        asked = self._asked.get(names.path, set())
        bound, opaque, left = set(names.bound), names.opaque, list[str]()
        seen, waiting = {names.path}, deque([names])
        while waiting:
            current = waiting.popleft()
            for star in current.stars:
                target = self._find_star(current.path, star)
                taken = self._read_star(target) if target else None
                if taken is None:
                    left.append(star)
                elif taken.path not in seen and len(seen) < _MOST_STARS:
                    seen.add(taken.path)
                    bound |= asked & taken.bound
                    opaque = opaque or taken.opaque
                    waiting.append(taken)
        return replace(names, bound=frozenset(bound), opaque=opaque, stars=tuple(left))

    def _find_star(self, path: str, star: str) -> str:
        module = name_module(self._package.layout.inside(path) or "")
        full = _resolve(star, module, is_package=path.endswith("/__init__.py"))
        return self._files.sources.get(full, "")

    def _read_star(self, path: str) -> ModuleNames | None:
        if path not in self._starred and len(self._starred) < _MOST_STARS:
            self._starred[path] = None
            with suppress(LeftAloneError, Unavailable):
                table = tabulate(self._read(self._members[path]))
                self._starred[path] = read_names(path, table)
        return self._starred.get(path)

    def _list_asked(self) -> Iterator[tuple[str, str]]:
        """Yield the files of modules that entry points name, with the name that each must bind.

        If a module is missing, yield all packages around it: they may extend the search path.
        """
        for _, _, value in self._package.entry_points:
            match = _REFERENCE.match(value)
            name = match[1] if match else ""
            if name in self._files.sources and ":" in value:
                yield self._files.sources[name], (match and match[2]) or ""
            elif not self._files.has(name):
                yield from (
                    (self._files.sources.get(each, ""), "") for each in _list_with_parents(name)
                )

    def _list_shared_files(self) -> Iterator[str]:
        """Yield the files of packages to which other distributions add modules."""
        for name in SHARED_PACKAGES:
            path = self._files.sources.get(name, "")
            if path.endswith("/__init__.py"):
                yield path

    def _read_top_level(self) -> tuple[str, ...] | None:
        name = f"{self._package.dist_info}/{_TOP_LEVEL}"
        found = [each for each in self._package.members if each.archive_name == name]
        if not found or found[-1].size > _LONGEST_LIST:
            return None
        try:
            content = self._contents.read(found[-1])
        except Unavailable:
            return None
        return tuple(dict.fromkeys(content.decode(errors="replace").split()))


def _list_with_parents(name: str) -> Iterator[str]:
    """Yield a module and all packages that are imported before it, outermost first."""
    parts = name.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def _resolve(named: str, module: str, *, is_package: bool) -> str:
    """Return the full name of a module imported as ``..a.b``, or "" if it leads nowhere."""
    inner = named.lstrip(".")
    level = len(named) - len(inner)
    if not level:
        return inner
    parts = module.split(".") if is_package else module.split(".")[:-1]
    if level > len(parts):
        return ""
    return ".".join([*parts[: len(parts) - level + 1], *filter(None, [inner])])
