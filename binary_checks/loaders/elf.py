"""How loaders of ELF files find what an object needs, and look up versions and symbols."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from binary_checks.knowledge.library_names import (
    find_driver_symbols,
    find_own_symbols,
    is_driver_soname,
)
from binary_checks.loaders.file_layout import FileLayout
from binary_checks.loaders.image import Image, Lookups, Unresolved, may_be_exported, python_of
from binary_checks.loaders.loader import (
    Answers,
    Directory,
    Loader,
    SearchPath,
    SearchResult,
)
from binary_checks.model import (
    GLIBC_PRIVATE,
    Edge,
    ElfFile,
    Interpreter,
    MissingVersion,
    NeededVersion,
    ObjectFile,
    Package,
    Rule,
    TargetSystem,
    UnexploredSymbols,
    UnresolvedSymbol,
    expand,
    function_of,
    is_other_abi,
    read_numbers,
)

# Finding libraries. The rules that differ are in the modules glibc, musl and bionic.

# libpython3.so has the stable ABI, libpython3.13t.so.1.0 is a free-threaded build
_LIBPYTHON = re.compile(
    r"libpython(?P<major>[23])(?:\.(?P<minor>\d+)(?P<flags>[a-z]*))?\.so(?:\.1\.0)?"
)


class LoaderRules(Protocol):
    """The rules that differ; the modules `glibc`, `musl` and `bionic` have them."""

    @property
    def SKIPS_FOREIGN_FILES(self) -> bool:  # noqa: N802
        """Whether a file of another architecture is skipped."""

    @property
    def CHECKS_VERSIONS(self) -> bool:  # noqa: N802
        """Whether symbol versions are checked."""

    @property
    def PYTHON_IS_GLOBAL(self) -> bool:  # noqa: N802
        """Whether an object finds Python's functions without needing libpython."""

    def hand_down(self, library: ElfFile) -> tuple[Directory, ...]:
        """Return the directories that a library hands down to its direct and indirect needs."""

    def search(self, library: ElfFile) -> tuple[Directory, ...] | None:
        """Return the directories for a library's own needs; None: those handed down to it."""

    def names_of(self, library: ElfFile, requested: str) -> frozenset[str]:
        """Return the needed names that a loaded library satisfies."""

    def preloaded(self, libraries: frozenset[str]) -> tuple[str, ...]:
        """Return the libraries that a Python process has loaded from the start."""

    def system_needs(self, name: str, libraries: frozenset[str]) -> tuple[str, ...]:
        """Return the needs of a system library."""

    def answers_itself(self, name: str) -> bool:
        """Return whether the loader itself serves as the library of that name."""


class ElfLoader(Loader[ElfFile]):
    """The loader of a Linux system or of Android, for one layout."""

    def __init__(
        self,
        package: Package,
        others: tuple[Package, ...],
        target: TargetSystem,
        rules: LoaderRules,
    ) -> None:
        super().__init__(FileLayout(package, others, kind=ElfFile), target)
        self.rules = rules

    def begin(self, root: ElfFile) -> SearchPath:
        """Return no directories, because every search path belongs to an object."""
        del root
        return self._paths.empty

    def hand_down(self, library: ElfFile, handed: SearchPath) -> SearchPath:
        """Return the directories to search for a library's direct and indirect needs."""
        return self._paths.extend(library, self.rules.hand_down, handed)

    def search(self, library: ElfFile, handed: SearchPath) -> SearchPath:
        """Return the library's DT_RUNPATH, or the DT_RPATHs handed down to it."""
        own = self.rules.search(library)
        return handed if own is None else self._paths.make(own)

    def find(self, library: ElfFile, name: str, places: SearchPath) -> SearchResult[ElfFile]:
        """Look for a needed name of a library in these directories."""
        if self.rules.answers_itself(name):
            return SearchResult(resolved=f"system:{name}", rule=Rule.SYSTEM)
        if "/" in name:
            return self._open(library, name)
        for place in places.having(name):
            directory = place.directory or ""
            files = self.layout.find(directory, name)
            fitting = next((f for f in files if f.architecture == library.architecture), None)
            if fitting or self.layout.is_unread(directory, name):
                path = fitting.path if fitting else f"{directory}/{name}".lstrip("/")
                return SearchResult(
                    resolved=self.layout.label(path),
                    rule=place.rule,
                    searched=places.searched(place),
                    library=fitting,
                )
            if files and not self.rules.SKIPS_FOREIGN_FILES:
                return SearchResult(searched=places.searched(place))
        return self._ask_system(library, name, places.directories)

    def called(self, name: str) -> str:
        """Return the needed name unchanged."""
        return name

    def answers_to(self, library: ElfFile, requested: str) -> frozenset[str]:
        """Return the needed names that a loaded library satisfies."""
        return self.rules.names_of(library, requested)

    def preloaded(self) -> dict[str, str]:
        """Return the C library, and further libraries that every Python has loaded."""
        return {name: f"system:{name}" for name in self.rules.preloaded(self.target.libraries)}

    def system_needs(self, name: str) -> tuple[str, ...]:
        """Return the needs of a system library."""
        return self.rules.system_needs(name, self.target.libraries)

    def _open(self, library: ElfFile, name: str) -> SearchResult[ElfFile]:
        """Open a needed name with a slash: below $ORIGIN, else in the current directory."""
        folder, _, file_name = name.rpartition("/")
        directory = expand(folder, library)
        files = self.layout.find(directory, file_name) if directory is not None else ()
        fitting = next((f for f in files if f.architecture == library.architecture), None)
        if fitting is None:
            return SearchResult()
        return SearchResult(
            resolved=self.layout.label(fitting.path), rule=Rule.PATH, library=fitting
        )

    def _ask_system(
        self, library: ElfFile, name: str, searched: tuple[str, ...]
    ) -> SearchResult[ElfFile]:
        """Return the result for a name that no package has; the platform or Python may have it."""
        if name in self.target.libraries and not library.no_default_libraries:
            return SearchResult(resolved=f"system:{name}", rule=Rule.SYSTEM, searched=searched)
        if _is_interpreters(name, python_of(library, self.target)):
            return SearchResult(resolved=f"python:{name}", rule=Rule.PYTHON, searched=searched)
        return SearchResult(searched=searched)


def _is_interpreters(name: str, python: Interpreter | None) -> bool:
    """Return whether a name is that of this interpreter's libpython."""
    match = _LIBPYTHON.fullmatch(name)
    if match is None or match["minor"] is None or python is None:
        return match is not None
    same = (int(match["major"]), int(match["minor"])) == python.version
    return same and ("t" in match["flags"]) == python.free_threaded


# Version nodes that an object needs, but its libraries lack (glibc's elf/dl-version.c).


def find_missing_versions(
    images: Iterable[Image[ElfFile]], layout: FileLayout[ElfFile], target: TargetSystem
) -> tuple[MissingVersion, ...]:
    """Return each needed version node, except weak ones, that its library lacks in some process."""
    found: dict[tuple[str, str, str], MissingVersion] = {}
    judged: set[tuple[str, str | None]] = set()
    seen: set[Answers] = set()
    known: dict[str, _Versions] = {}
    for image in images:
        objects = {layout.label(item.path): item for item in image.objects}
        for library, answers in zip(image.objects, image.answers, strict=True):
            if answers in seen or not library.symbol_versions or not layout.is_own(library):
                continue
            seen.add(answers)
            needs = _find(library, known)
            for edge in answers.edges:
                if (edge.path, edge.resolved) in judged:
                    continue
                judged.add((edge.path, edge.resolved))
                provider = objects.get(edge.resolved or "")
                has = None if provider is None else _find(provider, known)
                for item in _missing_of(needs, edge, has, target):
                    key = (item.path, item.library, item.version)
                    found.setdefault(key, replace(item, root=image.root.path))
    return tuple(found[key] for key in sorted(found))


def _find(library: ElfFile, known: dict[str, _Versions]) -> _Versions:
    if library.path not in known:
        known[library.path] = _Versions(library)
    return known[library.path]


class _Versions:
    """The versions that an object needs and defines, and the symbols bound to them."""

    def __init__(self, library: ElfFile) -> None:
        self.path = library.path
        self.library = library
        self.defined = frozenset(library.defined_versions)
        self._by_library: dict[str, list[NeededVersion]] = {}
        for need in library.symbol_versions:
            if not need.weak:
                self._by_library.setdefault(need.library, []).append(need)

    def of(self, library: str) -> Sequence[NeededVersion]:
        """Return the versions that a library must define."""
        return self._by_library.get(library, ())

    def bound(self, need: NeededVersion) -> Collection[str]:
        """Return the names of the symbols bound to a version."""
        return self._bound.get((need.library, need.version), ())

    @cached_property
    def _bound(self) -> dict[tuple[str, str], list[str]]:
        found: dict[tuple[str, str], list[str]] = {}
        for symbol in self.library.imports:
            found.setdefault((symbol.library, symbol.version), []).append(symbol.name)
        return found


def _missing_of(
    needs: _Versions, edge: Edge, provider: _Versions | None, target: TargetSystem
) -> Iterator[MissingVersion]:
    for need in needs.of(edge.needed):
        lacks = (
            _lacks(provider, needs, need)
            if provider
            else _system_lacks(edge.resolved or "", need.version, target)
        )
        if lacks:
            yield MissingVersion(
                path=needs.path,
                library=need.library,
                version=need.version,
                provider=edge.resolved or "",
                versioned=provider is None or bool(provider.defined),
            )


def _lacks(provider: _Versions, needs: _Versions, need: NeededVersion) -> bool:
    """Return whether ld.so refuses to load both objects because of a needed version.

    A library that defines no versions is refused only if a symbol is bound to the version. Even
    then the library is accepted if it needs versions itself: ld.so then treats its symbols as
    unversioned, and only prints "no version information available".
    """
    if provider.defined:
        return need.version not in provider.defined
    if provider.library.symbol_versions:
        return False
    return not provider.library.exports.names.isdisjoint(needs.bound(need))


def _system_lacks(resolved: str, version: str, target: TargetSystem) -> bool:
    """Return whether a system library lacks, in every release, a version that the policy allows."""
    data = target.library_data.get(resolved.removeprefix("system:"))
    if data is None or not data.versions or version in data.versions:
        return False
    return target.policy is None or target.policy.allows(version) is not False


# Scopes: finding the object of a process that defines a symbol.

_SYSTEM = "system:"
_NONE: frozenset[str] = frozenset()


class SystemSymbols:
    """The exports of the system's libraries, as sets."""

    def __init__(self, target: TargetSystem) -> None:
        self._data, self._policy = target.library_data, target.policy
        self._names: dict[tuple[frozenset[str], bool], frozenset[str]] = {}
        self._newer: dict[str, frozenset[str]] = {}

    def names(self, sonames: frozenset[str], *, promised: bool = False) -> frozenset[str]:
        """Return all exports of these libraries for which there are data.

        ``promised`` leaves out what the promised releases do not have yet.
        """
        if (sonames, promised) not in self._names:
            known = filter(None, map(self._data.get, sonames))
            lists = [
                data.symbols.keys() - self.newer(data.soname) if promised else data.symbols
                for data in known
            ]
            self._names[sonames, promised] = _NONE.union(*lists)
        return self._names[sonames, promised]

    def newer(self, soname: str) -> frozenset[str]:
        """Return the exports that a library has only in releases newer than the promised one."""
        data, policy = self._data.get(soname), self._policy
        if data is None or policy is None:
            return _NONE
        if soname not in self._newer:
            nodes = _NONE.union(*set(data.symbols.values())) - {GLIBC_PRIVATE}
            late = {node for node in nodes if policy.allows(node) is False}
            newer = (name for name, having in data.symbols.items() if having <= late)
            moved = (n for n in data.moved if max(data.symbols[n], key=_read_node) in late)
            self._newer[soname] = frozenset((*newer, *moved))
        return self._newer[soname]

    def date(self, item: UnresolvedSymbol, sonames: Iterable[str]) -> UnresolvedSymbol:
        """Add the first release that has the symbol, if it is newer than the promised one."""
        soname = next((each for each in sonames if item.name in self.newer(each)), "")
        if not soname:
            return item
        before = self._data[soname].moved.get(item.name, "")
        nodes = sorted(self._data[soname].symbols[item.name], key=_read_node)
        return replace(item, library=soname, since=nodes[-1] if before else nodes[0], before=before)

    def has(self, soname: str, name: str, version: str) -> bool:
        """Return whether a library exports a symbol in a version."""
        data = self._data.get(soname)
        return data is not None and version in data.symbols.get(name, ())

    def lacking(self, soname: str, names: Iterable[str], version: str) -> Collection[str]:
        """Return the names that a library has neither in a version nor without versions.

        Return no name if the library or the version is not known.
        """
        data = self._data.get(soname)
        if data is None or version not in data.versions or version == GLIBC_PRIVATE:
            return _NONE
        return [name for name in names if not {version, ""} & data.symbols.get(name, _NONE)]


def _read_node(version: str) -> tuple[int, ...]:
    """Return the numbers of a version node, by which the nodes of one library sort."""
    return read_numbers(version.partition("_")[2])


class Scope:
    """The objects of one process, and the libraries that each of them needs."""

    def __init__(self, image: Image[ElfFile], loader: ElfLoader, system: SystemSymbols) -> None:
        self.image, self.loader, self.system = image, loader, system
        self.target, self.rules = loader.target, loader.rules
        self.python = python_of(image.root, loader.target) if image.python else None
        self.objects = {loader.layout.label(item.path): item for item in image.objects}
        pairs = zip(image.objects, image.answers, strict=True)
        self._answers = {item.path: answers for item, answers in pairs}

    def answers_to(self, library: ElfFile) -> Answers:
        """Return the results for the needs of an object in the process."""
        return self._answers[library.path]

    def closure(self, library: ElfFile) -> Iterator[ElfFile]:
        """Yield a library, its needs, their needs and so on, nearest first, each only once.

        Further levels are searched only if the caller asks for them.
        """
        layer, seen = [library], {self.loader.layout.label(library.path)}
        while layer:
            yield from layer
            labels: list[str] = []
            for item in layer:
                fresh = set(self.answers_to(item).inside) - seen
                seen |= fresh
                labels.extend(fresh)
            layer = [self.objects[label] for label in labels if label in self.objects]

    def newer(self, library: ElfFile) -> frozenset[str]:
        """Return the names that an object looks up without a version in newer releases only.

        A name with a version is judged by its version node.
        """
        names = library.imports.among(self._newer) if self._newer else ()
        return frozenset(
            name for name in names if any(not each.version for each in library.imports.find(name))
        )

    @cached_property
    def _newer(self) -> frozenset[str]:
        return _NONE.union(*map(self.system.newer, self.image.system))

    def leftover(
        self, names: frozenset[str], objects: Iterable[ElfFile], *, promised: bool = False
    ) -> frozenset[str]:
        """Return the names that neither these objects nor their system libraries define.

        Names that Python defines are left out, too. ``promised`` asks the promised releases of the
        system libraries, else all.
        """
        preloaded = self.rules.preloaded(self.target.libraries) if self.image.python else ()
        known = self.system.names(frozenset(preloaded), promised=promised)
        left = set(self._not_of_python(names - known))
        for item in objects if left else ():
            left -= item.exports.among(left)
            if system := self._system_of(item):
                left -= self.system.names(system, promised=promised).intersection(left)
            if not left:
                break
        return frozenset(left)

    def _system_of(self, library: ElfFile) -> frozenset[str]:
        """Return the system libraries that an object needs, and the needs of these libraries."""
        outside = self.answers_to(library).outside
        labels = [e.resolved for e in outside if e.resolved and e.resolved.startswith(_SYSTEM)]
        names = [label.removeprefix(_SYSTEM) for label in labels]
        return frozenset(names).union(*map(self.loader.system_needs, names))

    def _not_of_python(self, names: frozenset[str]) -> frozenset[str]:
        return names - self.python.exports if self.python and self._finds_python else names

    @cached_property
    def _finds_python(self) -> bool:
        """Whether objects of the process find the functions of its Python."""
        return self.rules.PYTHON_IS_GLOBAL or any(
            (edge.resolved or "").startswith("python:") for edge in self.image.outside
        )

    def remaining(self, names: frozenset[str], *, promised: bool = False) -> frozenset[str]:
        """Return the names that no object or library in the process defines."""
        known = self.system.names(frozenset(self.image.system), promised=promised)
        left = set(self._not_of_python(names - known))
        for item in self.image.objects if left else ():
            left -= item.exports.among(left)
            if not left:
                break
        return frozenset(left)

    def of_driver(self, names: frozenset[str]) -> dict[str, frozenset[str]]:
        """Return the names that NVIDIA's driver defines, by the needed library of the driver."""
        edges = self.image.outside if names else ()
        outside = {e.needed for e in edges if (e.resolved or _SYSTEM).startswith(_SYSTEM)}
        return {
            name: find_driver_symbols(name, names) for name in outside if is_driver_soname(name)
        }

    def answers(self, name: str, version: str) -> bool:
        """Return whether any loaded object matches a versioned reference.

        A match is a definition in that version, or one without a version (``check_match`` in
        glibc's elf/dl-lookup.c).
        """
        wanted = {version, ""}
        return any(self.system.has(soname, name, version) for soname in self.image.system) or any(
            symbol.version in wanted
            for item in self.image.objects
            for symbol in item.exports.find(name)
        )

    @cached_property
    def unseen(self) -> Mapping[str, str]:
        """Libraries with unknown exports, in load order, and why they are unknown."""
        found: dict[str, str] = {}
        for edge in self.image.outside:
            if is_driver_soname(edge.needed):
                continue
            if edge.resolved is None:
                found.setdefault(edge.needed, f"{edge.needed} is not found")
            elif edge.resolved.startswith("python:") and self.python is None:
                found.setdefault(edge.needed, f"{edge.needed} has no export data")
        for name in self.image.system:
            # musl's loader has the exports of libc, under each name by which it is needed.
            known = is_driver_soname(name) or self.rules.answers_itself(name)
            if not known and self.target.library_data.get(name) is None:
                found.setdefault(name, f"{name} has no export data")
        for name in self.image.unread:
            found.setdefault(name, f"{name} could not be read")
        return found

    @property
    def why_unexplorable(self) -> str:
        """Why a library with unknown exports may define a symbol; "" if all exports are known."""
        return next(iter(self.unseen.values()), "")

    def certain(self, names: frozenset[str]) -> frozenset[str]:
        """Return the names that no library with unknown exports can define.

        A framework in scope may have a prefix that only its own libraries use.
        """
        loaded = (item.name or item.file_name for item in self.image.objects)
        return find_own_symbols(names, loaded, self.unseen) if names else names


def strong(library: ObjectFile, names: Iterable[str]) -> frozenset[str]:
    """Return the undefined symbols that must be found; weak ones may stay undefined."""
    return frozenset(
        name for name in names if any(not symbol.weak for symbol in library.imports.find(name))
    )


def mismatched(library: ElfFile, scope: Scope) -> Iterator[tuple[str, str, str]]:
    """Yield references whose library defines the symbol, but not in the referenced version.

    Each reference is a name, a version, and the library's label.
    """
    asks: dict[str, dict[str, set[str]]] = {}
    for symbol in library.imports:
        asks.setdefault(symbol.library, {}).setdefault(symbol.version, set()).add(symbol.name)
    for edge in scope.answers_to(library).edges:
        label = edge.resolved or ""
        if label not in scope.objects and not label.startswith(_SYSTEM):
            continue
        for version, names in asks.get(edge.needed, {}).items():
            for name in _lacking(names, version, label, scope):
                if any(
                    (each.version, each.library, each.weak) == (version, edge.needed, False)
                    for each in library.imports.find(name)
                ):
                    yield name, version, label


def _lacking(names: set[str], version: str, label: str, scope: Scope) -> Iterable[str]:
    """Return the names that a library exports, but not in this version."""
    provider = scope.objects.get(label)
    if provider is None:
        return scope.system.lacking(label.removeprefix(_SYSTEM), names, version)
    found = {name: provider.exports.find(name) for name in provider.exports.among(names)}
    return (n for n, each in found.items() if all(symbol.version != version for symbol in each))


# Lookup of all undefined symbols, as by loaders that bind all symbols at load.


def look_up(images: Iterable[Image[ElfFile]], loader: ElfLoader) -> Lookups:
    """Look up every strong undefined symbol of the package, in every process that loads it."""
    layout, system = loader.layout, SystemSymbols(loader.target)
    images = tuple(images)
    own = _OwnClosures(images)
    unresolved = Unresolved(layout)
    unexplored: dict[str, UnexploredSymbols] = {}
    unknown_exports: dict[str, set[tuple[str, str]]] = {}
    for image in images:
        scope = Scope(image, loader, system)
        for library in filter(layout.is_own, image.objects):
            own_left = own.leftover(library, scope)
            left = own_left.names
            if not left and not own_left.mismatched:
                continue
            known = unexplored.get(library.path)
            if known and known.count >= len(left) and scope.why_unexplorable:
                # Another process has already reported at least as many symbols of this library.
                left = scope.certain(left)
            if left:
                left = scope.remaining(left) | scope.remaining(
                    left & scope.newer(library), promised=True
                )
                for name, theirs in scope.of_driver(left).items():
                    unknown_exports.setdefault(name, set()).update(
                        (library.path, each) for each in theirs
                    )
                    left -= theirs
            unexplorable, reason = _find_unexplorable(left, scope)
            if len(unexplorable) > (known.count if known else 0):
                unexplored[library.path] = UnexploredSymbols(
                    path=library.path, count=len(unexplorable), reason=reason
                )
            found = (
                *_describe(library, left - unexplorable, scope),
                *_describe_mismatched(library, own_left.mismatched, scope),
            )
            for item in found:
                unresolved.add(item, library.architecture, asked=item.version)
    return Lookups(
        unresolved=unresolved.list_all(),
        unexplored=tuple(unexplored[key] for key in sorted(unexplored)),
        unknown_exports=tuple(
            (name, len(unknown_exports[name]))
            for name in sorted(unknown_exports)
            if unknown_exports[name]
        ),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Leftover:
    """The symbols that neither an object nor its needs define."""

    names: frozenset[str]  # undefined symbols that are not weak
    # (name, version, label of the library that lacks the version)
    mismatched: tuple[tuple[str, str, str], ...]


class _OwnClosures:
    """The symbols that each object lacks within its own closure; in most cases none."""

    def __init__(self, images: Iterable[Image[ElfFile]]) -> None:
        self._known: dict[tuple[str, bool, Interpreter | None], _Leftover] = {}
        self._varying = frozenset(_find_varying(images))

    def leftover(self, library: ElfFile, scope: Scope) -> _Leftover:
        """Return the undefined symbols of a library that none of its needs defines."""
        key = (library.path, scope.image.python, scope.python)
        if key in self._known:
            return self._known[key]
        names = scope.leftover(library.imports.names, scope.closure(library))
        names |= scope.leftover(scope.newer(library), scope.closure(library), promised=True)
        versioned = scope.rules.CHECKS_VERSIONS and library.symbol_versions
        found = _Leftover(
            names=strong(library, names),
            mismatched=tuple(mismatched(library, scope)) if versioned else (),
        )
        if self._is_constant(scope.closure(library)):
            self._known[key] = found
        return found

    def _is_constant(self, objects: Iterable[ElfFile]) -> bool:
        """Return whether these objects are the same in every process."""
        return not self._varying or self._varying.isdisjoint(item.path for item in objects)


def _find_varying(images: Iterable[Image[ElfFile]]) -> Iterator[str]:
    """Yield the objects that get different libraries in different processes."""
    seen: dict[str, Answers] = {}
    for image in images:
        for item, answers in zip(image.objects, image.answers, strict=True):
            first = seen.setdefault(item.path, answers)
            if first is not answers and first.resolved != answers.resolved:
                yield item.path


def _find_unexplorable(names: frozenset[str], scope: Scope) -> tuple[frozenset[str], str]:
    """Return the names that an unknown library may define, and why the library is unknown."""
    if not names:
        return names, ""
    if scope.why_unexplorable:
        return names - scope.certain(names), scope.why_unexplorable
    if scope.image.python:
        names = frozenset(name for name in names if may_be_exported(name, scope.python))
        return names, "the exports of its Python are not known"
    return frozenset(), ""


def _describe(library: ElfFile, names: Iterable[str], scope: Scope) -> Iterator[UnresolvedSymbol]:
    root = scope.image.root.path
    for name in sorted(names):
        symbol = library.imports.find(name)[0]
        item = UnresolvedSymbol(
            path=library.path,
            name=name,
            version=symbol.version,
            library=symbol.library,
            root=root,
        )
        yield item if symbol.version else scope.system.date(item, scope.image.system)


def _describe_mismatched(
    library: ElfFile,
    found: Iterable[tuple[str, str, str]],
    scope: Scope,
) -> Iterator[UnresolvedSymbol]:
    for name, version, label in sorted(found):
        if not scope.answers(name, version):
            provider = scope.objects.get(label)
            yield UnresolvedSymbol(
                path=library.path,
                name=name,
                version=version,
                library=provider.name if provider else label.partition(":")[2],
                root=scope.image.root.path,
                provider=label,
            )


# Functions that are undefined only because they were compiled with the other std::string.


def mark_other_abi(
    unresolved: tuple[UnresolvedSymbol, ...],
    layout: FileLayout[ElfFile],
    images: Iterable[Image[ElfFile]],
) -> tuple[UnresolvedSymbol, ...]:
    """Add to each symbol the library that defines it under the other C++ ABI.

    Only libraries of the package, and libraries that the symbol's process loads, count.
    """
    wanted: dict[str, list[str]] = {}
    for item in unresolved:
        function = function_of(item.name) if item.name.startswith("_Z") else ""
        if function and not (item.elsewhere or item.provider):
            wanted.setdefault(function, []).append(item.name)
    found: dict[str, str] = {}
    loaded = {item.path for image in images for item in image.objects} if wanted else set()
    for library in layout.libraries if wanted else ():
        if library.path not in loaded and not layout.is_own(library):
            continue
        for name in library.exports.each_name():
            alike = wanted.get(function_of(name), ()) if name.startswith("_Z") else ()
            for asked in (each for each in alike if is_other_abi(each, name)):
                found.setdefault(asked, layout.label_of(library))
    if not found:
        return unresolved
    return tuple(replace(item, other_abi=found.get(item.name, "")) for item in unresolved)
