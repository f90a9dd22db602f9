"""Names bound by the modules that entry points and shared namespaces refer to."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from importlib.util import resolve_name

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

_TOP_LEVEL = "top_level.txt"
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
        self._asked: dict[str, set[str]] = {}
        for path, name in self._list_asked():
            self._asked.setdefault(path, set()).add(name)
        self._starred: dict[str, ModuleNames | None] = {}

    def read(self) -> PythonModules:
        """Read all modules that entry points and namespaces refer to."""
        sources = self._files.sources
        # Other distributions add modules to these packages.
        shared = (sources.get(name, "") for name in SHARED_PACKAGES)
        chosen = {path for path in shared if path.endswith("/__init__.py")} | self._asked.keys()
        members = (
            self._members[path]
            for name, path in sources.items()
            if path in chosen and not is_for_tests(name.split("."))  # users do not import tests
        )
        names: list[ModuleNames] = []
        unparsed: list[UnparsedSource] = []
        for member, content in self._contents.each(members):
            try:
                if isinstance(content, Unavailable):
                    raise content
                names.append(self._read_names(member.path, content))
            except FaultyError:  # the probe that compiles files reports this error
                pass
            except (LeftAloneError, Unavailable) as error:
                unparsed.append(UnparsedSource(path=member.path, reason=str(error)))
        return PythonModules(
            names=tuple(sorted(names, key=lambda each: each.path)),
            unparsed=tuple(sorted(unparsed, key=lambda each: each.path)),
            top_level=self._read_top_level(),
            advised=self._find_advice(),
        )

    def _read_names(self, path: str, content: bytes) -> ModuleNames:
        """Read the names of a module, and those asked names that it star-imports."""
        names, asked = read_names(path, tabulate(content)), self._asked.get(path, set())
        # numpy binds the names of its entry points itself, but star-imports thirty modules.
        if asked <= names.bound:
            return names
        bound, opaque, left = set(names.bound), names.opaque, list[str]()
        seen, waiting = {path}, deque([names])
        while waiting:
            current = waiting.popleft()
            for star in current.stars:
                target = self._find_star(current.path, star)
                taken = self._read_star(target) if target else None
                if taken is None:
                    left.append(star)
                elif taken.path not in seen:
                    seen.add(taken.path)
                    bound |= asked & taken.bound
                    opaque = opaque or taken.opaque
                    waiting.append(taken)
        return replace(names, bound=frozenset(bound), opaque=opaque, stars=tuple(left))

    def _find_star(self, path: str, star: str) -> str:
        """Return the file of a module that another one star-imports, or ""."""
        module = name_module(self._package.layout.inside(path) or "")
        package = module if path.endswith("/__init__.py") else module.rpartition(".")[0]
        with suppress(ImportError):  # a relative import that leads out of the outermost package
            return self._files.sources.get(resolve_name(star, package), "")
        return ""

    def _read_star(self, path: str) -> ModuleNames | None:
        if path not in self._starred:
            self._starred[path] = None
            with suppress(LeftAloneError, Unavailable):
                table = tabulate(self._contents.read(self._members[path]))
                self._starred[path] = read_names(path, table)
        return self._starred[path]

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
                parts = name.split(".")
                around = (".".join(parts[:count]) for count in range(1, len(parts) + 1))
                yield from ((self._files.sources.get(each, ""), "") for each in around)

    def _read_top_level(self) -> tuple[str, ...] | None:
        content = self._read_text(_TOP_LEVEL)
        return None if content is None else tuple(dict.fromkeys(content.split()))

    def _find_advice(self) -> str | None:
        """Return the line of METADATA that imports a module of an empty package's name, or ""."""
        own = f"{self._package.dist_info}/"
        files = (each for each in self._package.members if not each.is_directory)
        if not all(each.archive_name.startswith(own) for each in files):
            return None
        name = re.sub(r"\W", "_", self._package.name)
        plain = rf"import[ \t]+{name}(?=[ \t]*\r?$|[ \t]+as\b|[.,;#])"
        pattern = rf"^[ \t>]*({plain}|from[ \t]+{name}[\w.]*[ \t]+import\b)"
        found = re.search(pattern, self._read_text("METADATA") or "", re.IGNORECASE | re.MULTILINE)
        return found[1] if found else ""

    def _read_text(self, name: str) -> str | None:
        """Return a file of the .dist-info folder; None if it is missing or cannot be read."""
        path = f"{self._package.dist_info}/{name}"
        found = [each for each in self._package.members if each.archive_name == path]
        with suppress(Unavailable):
            return self._contents.read(found[-1]).decode(errors="replace") if found else None
        return None
