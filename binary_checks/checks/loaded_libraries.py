"""Compares the libraries that a process has loaded with those that the simulated loader names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set

from binary_checks.model import Edge, ExtensionReport, Finding, Linkage, NotLooked, Problem

# The name that auditwheel gives to a library: it stands for its contents, wherever it lies.
_HASHED = re.compile(r"-[0-9a-f]{8}[.-][^/]*$")


def compare_report(report: ExtensionReport, linkage: Linkage, own: Set[str]) -> Iterator[Finding]:
    """Compare what was loaded, say what was not; ``own`` are the objects of the package."""
    if report.libraries is None:
        yield NotLooked(sentence="this system does not say which libraries a process has loaded")
        return
    yield from _find_differences(report.libraries, linkage, own)
    # The process never had these modules: nothing of them was compared.
    tried = (step.name for step in report.steps if step.name)
    for path in sorted({*tried, *report.untried} - {*report.libraries}):
        yield NotLooked(path=path, sentence="was not loaded, so its libraries were not compared")


def _find_differences(
    libraries: Iterable[str], linkage: Linkage, own: Set[str]
) -> Iterator[Problem]:
    """Find what differs, for those roots alone that the process has loaded.

    ``libraries`` are paths, relative to site-packages for what lies below it.
    """
    mapped = frozenset(libraries)
    given = own | (mapped if not linkage.requirements else {n for n in mapped if n.startswith("/")})
    for edge in linkage.edges:
        if edge.root in mapped and edge.path in mapped:
            yield from _compare_edge(edge, mapped, given)
    expected = {name for root, names in linkage.closures if root in mapped for name in names}
    for path in sorted(mapped & own - expected - {*linkage.roots}):
        yield Problem(path=path, sentence="is loaded, though no loaded module is seen to need it")


def _compare_edge(edge: Edge, mapped: Set[str], given: Set[str]) -> Iterator[Problem]:
    """Compare what the simulation makes of one needed name with what the process has."""
    if edge.resolved is None:
        # What a requirement brings is not missing where the simulation was not given it.
        if other := _find_namesake(edge.needed, mapped & given):
            sentence = f"finds {edge.needed} in {other}, where the simulation does not"
            yield Problem(path=edge.path, sentence=sentence)
    elif not _is_mapped(edge.resolved, mapped):
        other = _find_namesake(edge.resolved, mapped)
        if other in mapped - given or (other and _HASHED.search(other)):
            return  # what was loaded first is taken, and a requirement may have been
        instead = f"; it has {other}" if other else ""
        sentence = f"should load {edge.resolved}, but the process has not{instead}"
        yield Problem(path=edge.path, sentence=sentence)


def _is_mapped(name: str, mapped: Set[str]) -> bool:
    """Whether the process has what the simulation names; system libraries go by name alone."""
    kind, colon, rest = name.partition(":")
    if not colon:
        return name in mapped
    if kind == "wheel":
        return rest.partition(":")[2] in mapped
    # A libc of musl is its loader, whatever it is called; glibc's loader may be called ld-2.31.so.
    if rest.startswith(("ld-", "ld.", "ld64.", "libc.musl-")) or rest == "libc.so":
        return True
    stem = rest.partition(".so")[0]
    return any(
        base == rest or base.startswith((f"{rest}.", f"{stem}-"))
        for base in (path.rpartition("/")[2] for path in mapped if path.startswith("/"))
    )


def _find_namesake(name: str, mapped: Iterable[str]) -> str:
    """Find what the process has under the same file name elsewhere, "" when nothing."""
    base = re.split(r"[/:]", name)[-1]
    return next((path for path in sorted(mapped) if path.rpartition("/")[2] == base), "")
