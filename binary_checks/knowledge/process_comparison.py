"""Compares the libraries that a process has loaded with those of the simulated loader."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace

from binary_checks.knowledge.library_names import (
    is_redistributable,
)
from binary_checks.model import (
    Edge,
    ExtensionReport,
    Finding,
    Format,
    Layout,
    Linkage,
    Note,
    NotInspected,
    Problem,
    Rule,
)

# A name made by auditwheel or delvewheel identifies the library's contents, in any directory.
_HASHED = r"-(?:[0-9a-f]{8}|[0-9a-f]{32})[.-][^/]*$"
_ABSOLUTE = r"/|[A-Za-z]:/"  # also "//server/share"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Process:
    """The files that a process has loaded, by their paths in the prefix."""

    files: Mapping[str, str]  # path as this system compares paths -> path as reported
    format: Format
    layout: Layout

    def place(self, reported: str) -> str:
        """Convert a path reported by the process to a path in the prefix, unless it is absolute."""
        return reported if re.match(_ABSOLUTE, reported) else self.layout.place(reported)

    def normalise(self, path: str) -> str:
        """Return a path in the form in which this system compares paths."""
        return path.lower() if self.format == Format.PE else path

    def has(self, path: str) -> bool:
        """Return whether exactly this file is loaded."""
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
    compared = str.lower if linkage.format == Format.PE else str
    process = _Process(files={}, format=linkage.format, layout=linkage.layout)
    files = {compared(process.place(path)): path for path in report.libraries}
    process = replace(process, files=files)
    # The process never loaded these modules: nothing about them was compared.
    tried = {step.name for step in report.steps if step.name}
    paths = map(process.place, {*tried, *report.untried})
    absent = {path for path in paths if not process.has(path)}
    yield from _find_differences(process, linkage, own, report.architecture)
    yield from _find_surplus(process, linkage, own, absent)
    for path in sorted(absent):
        yield NotInspected(path=path, sentence="was not loaded, so its libraries were not compared")


def _find_differences(
    process: _Process, linkage: Linkage, own: Set[str], architecture: str
) -> Iterator[Problem | Note]:
    """Yield differences for the roots that the process has loaded."""
    ours = {process.normalise(path) for path in own}
    loaded = [names for root, names in linkage.closures if process.has(root)]
    expected = {process.normalise(name) for names in loaded for name in names}
    given = ours | {n for n in process.files if not linkage.requirements or re.match(_ABSOLUTE, n)}
    if linkage.format == Format.PE:
        given -= expected  # of several files of one name, the first loaded one satisfies all needs
    for edge in _choose_slice(linkage.edges, architecture):
        if process.has(edge.root) and process.has(edge.path):
            yield from _compare_edge(edge, process, given)


def _find_surplus(
    process: _Process, linkage: Linkage, own: Set[str], absent: Set[str]
) -> Iterator[Deviation]:
    """Yield objects of the package that are loaded without an apparent reason.

    Needs of modules that failed to load count as reasons: the package's own code may have opened
    the library earlier, or the loader kept the library when it refused the module.
    """
    tried = [names for root, names in linkage.closures if process.has(root) or root in absent]
    expected = {process.normalise(name) for names in tried for name in names}
    roots = {process.normalise(root) for root in linkage.roots}
    ours = {process.normalise(path) for path in own}
    for path in sorted((process.files.keys() & ours) - expected - roots):
        yield _deviate(process.files[path], "is loaded, but no loaded module appears to need it")


def _choose_slice(edges: Iterable[Edge], architecture: str) -> Iterator[Edge]:
    """Yield the needs of the slices that the process runs; all needs if the slices are unknown."""
    edges = tuple(edges)
    have = {(edge.path, edge.architecture) for edge in edges}
    for edge in edges:
        if edge.architecture == architecture or (edge.path, architecture) not in have:
            yield edge


def _compare_edge(edge: Edge, process: _Process, given: Set[str]) -> Iterator[Problem | Note]:
    """Compare the simulation's result for one need with the libraries of the process."""
    if edge.proven:
        return  # load-order-dependent notes it
    if edge.resolved is None:
        # A library of a requirement is not missing if the simulation was not given the requirement.
        other = process.find_namesake(edge.needed)
        if process.normalise(process.place(other)) not in given or _may_be_found(edge, other):
            return
        if re.match(_ABSOLUTE, other):
            sentence = f"finds {edge.needed} on this system, which not all users have"
            yield Note(path=edge.path, sentence=sentence)
        else:
            yield _deviate(edge.path, f"finds {edge.needed} in {other}")
    elif not _is_loaded(edge, edge.resolved, process):
        other = process.find_namesake(edge.resolved)
        if not other and (edge.delayed or edge.weak):
            return  # no call has needed the library yet, or this system lacks it
        if other and (
            process.normalise(process.place(other)) not in given or re.search(_HASHED, other)
        ):
            # the first loaded library is used, and a requirement's library may have been first
            return
        instead = f"; it has {other}" if other else ""
        library = process.layout.shorten_label(edge.resolved)
        sentence = f"should load {library}, but the process did not{instead}"
        if re.match(_ABSOLUTE, other):
            yield Problem(path=edge.path, sentence=sentence, facts=(edge.needed,))
        else:
            yield _deviate(edge.path, sentence)


def _may_be_found(edge: Edge, other: str) -> bool:
    """Return whether this system may have a library that not every promised system has.

    Another check judges whether a package relies on the redistributable of Visual C++.
    """
    uncertain = edge.unknown or edge.partly or is_redistributable(edge.needed)
    return bool(uncertain) and re.match(_ABSOLUTE, other) is not None


def _is_loaded(edge: Edge, resolved: str, process: _Process) -> bool:
    """Return whether the process has the resolved library.

    System libraries are compared by name.
    """
    kind, colon, rest = resolved.partition(":")
    if not colon:
        return process.has(resolved)
    if kind == "wheel":
        return process.has(rest.partition(":")[2])
    if edge.rule is Rule.API_SET:
        return True  # an API set is not a file: a table in Windows maps it to a DLL
    # musl's libc is also its loader, under several names; glibc's loader may be named ld-2.31.so.
    if rest.startswith(("ld-", "ld.", "ld64.", "libc.musl-")) or rest == "libc.so":
        return True
    if process.has_outside(rest):
        return True
    # macOS has its libraries in one cache, where one library may have older names.
    return process.format == Format.MACHO and not process.find_namesake(rest)


def _base(path: str) -> str:
    return re.split(r"[/:]", path)[-1]
