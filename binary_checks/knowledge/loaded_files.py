"""The libraries that processes had loaded, compared with the simulation of their loader.

A process that imported the package may prove a need that the simulation could not satisfy, and may
deviate from the simulation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import replace

from binary_checks.knowledge.library_names import is_redistributable
from binary_checks.model import (
    Edge,
    ExtensionReport,
    Finding,
    Format,
    Linkage,
    LoadedTogether,
    MissingVersion,
    Note,
    NotInspected,
    Package,
    Problem,
    Rule,
    UnresolvedSymbol,
)

# A name made by auditwheel or delvewheel identifies the library's contents, in any directory.
_HASHED = r"-(?:[0-9a-f]{8}|[0-9a-f]{32})[.-][^/]*$"
_ABSOLUTE = r"/|[A-Za-z]:/"  # also "//server/share"


class _Process:
    """The files that one process had loaded, compared as its system compares paths."""

    def __init__(self, reported: Iterable[str], linkage: Linkage) -> None:
        self.format, self.layout = linkage.format, linkage.layout
        # path as this system compares paths -> path as reported
        self.files = {self.normalise(self.place(path)): path for path in reported}

    def place(self, reported: str) -> str:
        """Convert a path reported by the process to a path in the prefix, unless it is absolute."""
        return reported if re.match(_ABSOLUTE, reported) else self.layout.place(reported)

    def normalise(self, path: str) -> str:
        """Return a path in the form in which this system compares paths."""
        return path.lower() if self.format == Format.PE else path

    def has(self, label: str) -> bool:
        """Return whether exactly this file, of the package or of a given wheel, is loaded."""
        kind, _, rest = label.partition(":")
        path = rest.partition(":")[2] if kind == "wheel" else label
        return self.normalise(path) in self.files

    def find_namesake(self, name: str) -> str:
        """Return a loaded file of the same name in any directory, or "".

        The path is returned as reported, because messages show it in that form.
        """
        base = _base(self.normalise(name))
        return next(
            (shown for path, shown in sorted(self.files.items()) if _base(path) == base), ""
        )

    def has_outside(self, name: str) -> bool:
        """Return whether a file of that name, in any version, is loaded from outside the prefix."""
        base = _base(self.normalise(name))
        stem = base.partition(".so")[0]
        named = (f"{base}.", f"{stem}-") if self.format == Format.ELF else ()
        outside = (_base(path) for path in self.files if re.match(_ABSOLUTE, path))
        return any(each == base or each.startswith(named) for each in outside)


def _base(path: str) -> str:
    return re.split(r"[/:]", path)[-1]


def _choose_slices(edges: Iterable[Edge], architecture: str) -> Iterator[tuple[Edge, bool]]:
    """Yield the needs, and whether a process ran that slice; every slice if none is known."""
    edges = tuple(edges)
    have = {(edge.path, edge.architecture) for edge in edges}
    for edge in edges:
        yield edge, edge.architecture == architecture or (edge.path, architecture) not in have


# Needs that the simulation could not satisfy, and that a process proves.


def find_doubtful_roots(linkage: Linkage) -> tuple[str, ...]:
    """Return the roots that load only if the package's own code has loaded something before.

    Only answers that lie in the package and its requirements count: a library of this system
    proves nothing about the systems of users.
    """
    roots = (
        *(edge.root or edge.path for edge in linkage.edges if _may_be_proven(edge)),
        *(item.root or item.path for item in linkage.unresolved if item.elsewhere),
        *(item.root or item.path for item in linkage.missing_versions if _is_inside(item.provider)),
    )
    return tuple(dict.fromkeys(roots))


def _may_be_proven(edge: Edge) -> bool:
    if edge.weak or edge.delayed:
        return False
    lucky = edge.rule is Rule.LOADED and _is_inside(edge.resolved or "")
    return lucky or (edge.resolved is None and bool(edge.elsewhere))


def _is_inside(label: str) -> bool:
    """Return whether the object is in the package or in a package given next to it."""
    return bool(label) and not label.startswith(("system:", "python:"))


def mark_proven(linkage: Linkage, loaded: LoadedTogether, package: Package) -> Linkage:
    """Return the linkage with the files that satisfied doubtful needs in those processes."""
    processes = [_Process(each, linkage) for each in loaded.processes]
    # undefined symbol -> the package's objects that define it
    definers: dict[str, list[str]] = {
        item.name: [] for item in linkage.unresolved if item.elsewhere
    }
    for library in package.objects if definers else ():
        for name in definers.keys() & library.exports.names:
            definers[name].append(library.path)

    def prove(edge: Edge, *, runs: bool) -> Edge:
        if not (runs and _may_be_proven(edge)):
            return edge
        targets = edge.elsewhere if edge.resolved is None else (edge.resolved,)
        return replace(edge, proven=_find_loaded(edge.path, targets, processes))

    def define(item: UnresolvedSymbol) -> UnresolvedSymbol:
        if not item.elsewhere or item.delayed:
            return replace(item, proven="")
        places = (item.elsewhere, *definers[item.name])
        return replace(item, proven=_find_loaded(item.path, places, processes))

    def find(item: MissingVersion) -> MissingVersion:
        known = _is_inside(item.provider) and any(each.has(item.path) for each in processes)
        return replace(item, proven=known)

    sliced = _choose_slices(linkage.edges, loaded.architecture)
    return replace(
        linkage,
        edges=tuple(prove(edge, runs=runs) for edge, runs in sliced),
        unresolved=tuple(map(define, linkage.unresolved)),
        missing_versions=tuple(map(find, linkage.missing_versions)),
    )


def _find_loaded(path: str, targets: Iterable[str], processes: Iterable[_Process]) -> str:
    """Return the first of the targets that a process had together with the object, or ""."""
    having = [each for each in processes if each.has(path)]
    return next((target for target in targets if any(each.has(target) for each in having)), "")


# Differences between a process and our simulation of its loader.


class Deviation(Note):
    """A difference between a process and our simulation of its loader."""


def _deviate(path: str, sentence: str) -> Deviation:
    return Deviation(path=path, sentence=f"the simulation expected otherwise: {sentence}")


def compare_report(report: ExtensionReport, linkage: Linkage, own: Set[str]) -> Iterator[Finding]:
    """Compare the loaded files with the linkage; ``own`` are the objects of the package."""
    if report.libraries is None:
        yield NotInspected(
            sentence="this system does not report which libraries a process has loaded"
        )
        return
    process = _Process(report.libraries, linkage)
    # The process never loaded these modules: nothing about them was compared.
    tried = {step.name for step in report.steps if step.name}
    paths = map(process.place, {*tried, *report.untried})
    absent = {path for path in paths if not process.has(path)}
    ours = {process.normalise(path) for path in own}
    yield from _find_differences(process, linkage, ours, report.architecture)
    # Needs of modules that failed to load are reasons, too: the package's own code may have opened
    # the library earlier, or the loader kept the library when it refused the module.
    needs = [names for root, names in linkage.closures if process.has(root) or root in absent]
    known = {process.normalise(path) for names in (*needs, linkage.roots) for path in names}
    for path in sorted((process.files.keys() & ours) - known):
        yield _deviate(process.files[path], "is loaded, but no loaded module appears to need it")
    for path in sorted(absent):
        yield NotInspected(path=path, sentence="was not loaded, so its libraries were not compared")


def _find_differences(
    process: _Process, linkage: Linkage, ours: Set[str], architecture: str
) -> Iterator[Problem | Note]:
    """Yield differences for the roots that the process has loaded."""
    loaded = [names for root, names in linkage.closures if process.has(root)]
    expected = {process.normalise(name) for names in loaded for name in names}
    given = ours | {n for n in process.files if not linkage.requirements or re.match(_ABSOLUTE, n)}
    if linkage.format == Format.PE:
        given -= expected  # of several files of one name, the first loaded one satisfies all needs
    for edge, runs in _choose_slices(linkage.edges, architecture):
        if runs and process.has(edge.root) and process.has(edge.path):
            yield from _compare_edge(edge, process, given)


def _compare_edge(edge: Edge, process: _Process, given: Set[str]) -> Iterator[Problem | Note]:
    """Compare the simulation's result for one need with the libraries of the process."""
    if edge.proven:
        return  # load-order-dependent notes it
    other = process.find_namesake(edge.resolved or edge.needed)
    foreign = process.normalise(process.place(other)) not in given
    of_system = re.match(_ABSOLUTE, other) is not None
    if edge.resolved is None:
        # This system may have a library that not every promised system has. Another check judges
        # whether a package relies on the redistributable of Visual C++.
        uncertain = edge.unknown or edge.partly or is_redistributable(edge.needed)
        # A library of a requirement is not missing if the simulation was not given the requirement.
        if foreign or (uncertain and of_system):
            return
        if of_system:
            yield Note(
                path=edge.path,
                sentence=f"finds {edge.needed} on this system, which not all users have",
            )
        else:
            yield _deviate(edge.path, f"finds {edge.needed} in {other}")
    elif not _is_loaded(edge, edge.resolved, process):
        if not other and (edge.delayed or edge.weak):
            return  # no call has needed the library yet, or this system lacks it
        if other and (foreign or re.search(_HASHED, other)):
            # the first loaded library is used, and a requirement's library may have been first
            return
        instead = f"; it has {other}" if other else ""
        library = process.layout.shorten_label(edge.resolved)
        sentence = f"should load {library}, but the process did not{instead}"
        if of_system:
            yield Problem(path=edge.path, sentence=sentence, facts=(edge.needed,))
        else:
            yield _deviate(edge.path, sentence)


def _is_loaded(edge: Edge, resolved: str, process: _Process) -> bool:
    """Return whether the process has the resolved library.

    System libraries are compared by name.
    """
    kind, colon, rest = resolved.partition(":")
    if not colon or kind == "wheel":
        return process.has(resolved)
    if edge.rule is Rule.API_SET:
        return True  # an API set is not a file: a table in Windows maps it to a DLL
    # musl's libc is also its loader, under several names; glibc's loader may be named ld-2.31.so.
    if rest.startswith(("ld-", "ld.", "ld64.", "libc.musl-")) or rest == "libc.so":
        return True
    if process.has_outside(rest):
        return True
    # macOS has its libraries in one cache, where one library may have older names.
    return process.format == Format.MACHO and not process.find_namesake(rest)
