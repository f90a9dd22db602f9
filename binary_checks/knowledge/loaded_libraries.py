"""Compares the libraries that a process has loaded with those that the simulated loader names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace

from binary_checks.knowledge.visual_cpp import is_redistributable
from binary_checks.model import (
    Edge,
    ExtensionReport,
    Finding,
    Format,
    Layout,
    Level,
    Linkage,
    Note,
    NotInspected,
    Problem,
    Rule,
)

# The name that auditwheel or delvewheel gives to a library: it stands for its contents, wherever
# it lies.
_HASHED = r"-(?:[0-9a-f]{8}|[0-9a-f]{32})[.-][^/]*$"
_ABSOLUTE = r"/|[A-Za-z]:/"  # "//server/share" too


@dataclass(frozen=True, kw_only=True, slots=True)
class _Process:
    """The files that a process has loaded, by their places in the prefix."""

    files: Mapping[str, str]  # as this system compares places -> as it told them
    format: Format
    layout: Layout

    def place(self, told: str) -> str:
        """The place of what was told: below site-packages it counts from there."""
        return told if re.match(_ABSOLUTE, told) else self.layout.place(told)

    def spell(self, path: str) -> str:
        """Spell a path as this system compares it."""
        return path.lower() if self.format == Format.PE else path

    def has(self, path: str) -> bool:
        """Whether this very file is loaded."""
        return self.spell(path) in self.files

    def find_namesake(self, name: str) -> str:
        """Find what is loaded under the same file name, wherever it lies; "" when nothing.

        The answer is as it was told, which is how sentences show it.
        """
        base = _base(self.spell(name))
        return next((told for path, told in sorted(self.files.items()) if _base(path) == base), "")

    def has_outside(self, name: str) -> bool:
        """Whether a file of that name is loaded from outside site-packages, whatever version."""
        base = _base(self.spell(name))
        stem = base.partition(".so")[0]
        named = (f"{base}.", f"{stem}-") if self.format == Format.ELF else ()
        outside = (_base(path) for path in self.files if re.match(_ABSOLUTE, path))
        return any(each == base or each.startswith(named) for each in outside)


def compare_report(report: ExtensionReport, linkage: Linkage, own: Set[str]) -> Iterator[Finding]:
    """Compare what was loaded, say what was not; ``own`` are the objects of the package."""
    if report.libraries is None:
        yield NotInspected(
            sentence="this system does not report which libraries a process has loaded"
        )
        return
    compared = str.lower if linkage.format == Format.PE else str
    process = _Process(files={}, format=linkage.format, layout=linkage.layout)
    files = {compared(process.place(path)): path for path in report.libraries}
    process = replace(process, files=files)
    # The process never had these modules: nothing of them was compared.
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
    """Find what differs, for those roots alone that the process has loaded."""
    ours = {process.spell(path) for path in own}
    loaded = [names for root, names in linkage.closures if process.has(root)]
    expected = {process.spell(name) for names in loaded for name in names}
    given = ours | {n for n in process.files if not linkage.requirements or re.match(_ABSOLUTE, n)}
    if linkage.format == Format.PE:
        given -= expected  # of two files of one name the first that anything loads serves all
    for edge in _choose_slice(linkage.edges, architecture):
        if process.has(edge.root) and process.has(edge.path):
            yield from _compare_edge(edge, process, given)


def _find_surplus(
    process: _Process, linkage: Linkage, own: Set[str], absent: Set[str]
) -> Iterator[Problem]:
    """Find what of the package is loaded for no reason to be seen.

    What modules that did not load would need is seen: the package's own code may have opened it
    before, or the loader leave it when it refuses the module.
    """
    tried = [names for root, names in linkage.closures if process.has(root) or root in absent]
    expected = {process.spell(name) for names in tried for name in names}
    roots = {process.spell(root) for root in linkage.roots}
    ours = {process.spell(path) for path in own}
    for path in sorted((process.files.keys() & ours) - expected - roots):
        sentence = "is loaded, but no loaded module appears to need it"
        yield Problem(path=process.files[path], sentence=sentence)


def _choose_slice(edges: Iterable[Edge], architecture: str) -> Iterator[Edge]:
    """The needs of the slices that the process runs; where that is not known, of all."""
    edges = tuple(edges)
    have = {(edge.path, edge.architecture) for edge in edges}
    for edge in edges:
        if edge.architecture == architecture or (edge.path, architecture) not in have:
            yield edge


def _compare_edge(edge: Edge, process: _Process, given: Set[str]) -> Iterator[Problem | Note]:
    """Compare what the simulation makes of one needed name with what the process has."""
    if edge.resolved is None:
        # What a requirement brings is not missing where the simulation was not given it.
        other = process.find_namesake(edge.needed)
        if process.spell(process.place(other)) not in given or _may_be_found(edge, other):
            return
        if re.match(_ABSOLUTE, other):
            sentence = f"finds {edge.needed} on this system, which not all users have"
            yield Note(path=edge.path, sentence=sentence)
        else:
            sentence = f"finds {edge.needed} in {other}, but the simulation does not"
            yield Problem(path=edge.path, sentence=sentence)
    elif not _is_loaded(edge, edge.resolved, process):
        other = process.find_namesake(edge.resolved)
        if not other and (edge.delayed or edge.weak):
            return  # nothing has called it yet, or this system is without it
        if other and (
            process.spell(process.place(other)) not in given or re.search(_HASHED, other)
        ):
            return  # what was loaded first is taken, and a requirement may have been
        instead = f"; it has {other}" if other else ""
        library = process.layout.shorten_label(edge.resolved)
        sentence = f"should load {library}, but the process did not{instead}"
        own = not re.match(_ABSOLUTE, other)
        level = Level.ERROR if own else Level.WARNING
        yield Problem(path=edge.path, sentence=sentence, level=level)


def _may_be_found(edge: Edge, other: str) -> bool:
    """Whether this system may well have what not every promised one has.

    That a package counts on the redistributable of Visual C++ is for the check of that name.
    """
    uncertain = edge.unknown or edge.partly or is_redistributable(edge.needed)
    return bool(uncertain) and re.match(_ABSOLUTE, other) is not None


def _is_loaded(edge: Edge, resolved: str, process: _Process) -> bool:
    """Whether the process has what the simulation names; system libraries go by name alone."""
    kind, colon, rest = resolved.partition(":")
    if not colon:
        return process.has(resolved)
    if kind == "wheel":
        return process.has(rest.partition(":")[2])
    if edge.rule is Rule.API_SET:
        return True  # no file: Windows's own table says which DLL serves it
    # A libc of musl is its loader, whatever it is called; glibc's loader may be called ld-2.31.so.
    if rest.startswith(("ld-", "ld.", "ld64.", "libc.musl-")) or rest == "libc.so":
        return True
    if process.has_outside(rest):
        return True
    # macOS keeps its libraries in one cache, where a name may be another's older spelling.
    return process.format == Format.MACHO and not process.find_namesake(rest)


def _base(path: str) -> str:
    return re.split(r"[/:]", path)[-1]
