"""What the words of a clean system's loader say of a package: what is its own fault, what not.

The loader is asked for each object alone. What Python, or the package's own code, has loaded before
is not there for it, and what only that lacks is no fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from binary_checks.errors import NotApplicable
from binary_checks.knowledge.host_libraries import is_promised
from binary_checks.knowledge.python_symbols import find_python_symbols
from binary_checks.knowledge.reached_objects import soften
from binary_checks.model import (
    Edge,
    Finding,
    Level,
    Linkage,
    LoadFault,
    LoadFaultKind,
    LoadReport,
    Note,
    NotInspected,
    ObjectFile,
    Package,
    Problem,
    Rule,
)
from binary_checks.model.linkage import directories
from binary_checks.model.packages import Claims
from binary_checks.model.python_modules import is_extension
from binary_checks.model.system import read_numbers
from binary_checks.wording.causes import of_library, of_need, of_other_version, of_symbols
from binary_checks.wording.phrases import name_first

_BEFORE = frozenset({Rule.LOADED, Rule.LOADED_FIRST})
_SHOWN = 3  # names of symbols in a sentence


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tried:
    """What was tried, and what is known of the package."""

    report: LoadReport
    linkage: Linkage | Package
    package: Package

    def edge(self, fault: LoadFault) -> Edge | None:
        """The simulation's answer for a needed library."""
        if not isinstance(self.linkage, Linkage):
            return None
        edges = self.linkage.edges_of(fault.path, self.report.architecture)
        named = (edge for edge in edges if edge.needed.rpartition("/")[2] == fault.name)
        return next(named, None)

    def object(self, path: str) -> ObjectFile | None:
        """The package's object at that path."""
        return next((item for item in self.package.objects if item.path == path), None)


def judge_faults(
    report: LoadReport, linkage: Linkage | Package, package: Package
) -> Iterator[Finding]:
    """Judge each fault, those of symbols of one object together, and say what was not tried."""
    tried = _Tried(report=report, linkage=linkage, package=package)
    for fault in report.faults:
        if fault.kind is LoadFaultKind.LIBRARY:
            yield from _judge_library(fault, tried)
        elif fault.kind is LoadFaultKind.VERSION:
            lacks = f"{fault.provider} there does not define {fault.version}"
            yield _fail(fault, f"{lacks}, which it needs", of_other_version(fault.provider), tried)
        elif fault.kind is LoadFaultKind.REFUSED:
            yield _fail(fault, fault.detail, "", tried)
    yield from _judge_symbols(tried)
    if report.loaded:
        counted = f"{len(report.loaded):,} objects were" if report.loaded[1:] else "1 object was"
        yield Note(sentence=f"{counted} loaded on {report.system}, each with all that it needs")
    if report.reservation:
        yield Note(sentence=report.reservation)
    for path, why in report.untried:
        yield NotInspected(path=path, sentence=f"not loaded on {report.system}: {why}")


def _fail(
    fault: LoadFault, why: str, cause: str, tried: _Tried, edge: Edge | None = None
) -> Finding:
    problem = Problem(
        path=fault.path,
        sentence=f"does not load on {tried.report.system}: {why}",
        cause=cause,
        consequence=bool(cause),
    )
    return soften(problem, tried.linkage, edge)


def _judge_library(fault: LoadFault, tried: _Tried) -> Iterator[Finding]:
    edge = tried.edge(fault)
    name, resolved = fault.name, edge.resolved if edge else None
    if edge and (edge.rule in _BEFORE or edge.weak or (resolved or "").startswith("python:")):
        return
    promised = edge is None and is_promised(name, tried.package.claims)
    if promised or (resolved or "").startswith("system:"):
        why = f"it lacks {name}, which the platform tag promises"
        yield NotInspected(path=fault.path, sentence=f"not loaded on {tried.report.system}: {why}")
        return
    if edge and resolved is None and (edge.may_come_with or edge.unknown):
        # Its own search does not lead there: whoever imports that first has loaded it.
        why = f"{name} may come with {name_first(edge.may_come_with) or edge.unknown}"
        yield NotInspected(path=fault.path, sentence=f"not loaded on {tried.report.system}: {why}")
        return
    cause = of_library(name)
    if edge and isinstance(tried.linkage, Linkage):
        cause = of_need(edge, partial(directories, tried.package), tried.linkage.layout)
    finding = _fail(fault, f"{name} is not found there", cause, tried, edge)
    if edge and edge.elsewhere and isinstance(tried.linkage, Linkage):
        finding = _ease(finding, tried.linkage.loading_code)
    beside = isinstance(tried.linkage, Linkage) and edge is None and not _needs(name, tried)
    if beside and isinstance(finding, Problem):
        sentence = f"{finding.sentence}, which libraries of its requirements need"
        finding = replace(finding, sentence=sentence, level=Level.WARNING)
    yield finding


def _ease(finding: Finding, code: str) -> Finding:
    """A warning where the package's own code may have loaded before what nothing finds."""
    if not code or not isinstance(finding, Problem):
        return finding
    sentence = f"{finding.sentence}; the package's own code may load it first ({code})"
    return replace(finding, sentence=sentence, level=Level.WARNING)


def _needs(name: str, tried: _Tried) -> bool:
    """Whether an object of the package itself asks for a library."""
    return any(each.name == name for item in tried.package.objects for each in item.needed)


def _judge_symbols(tried: _Tried) -> Iterator[Finding]:
    versions = {
        (fault.path, fault.version)
        for fault in tried.report.faults
        if fault.kind is LoadFaultKind.VERSION
    }
    lame = {fault.root for fault in tried.report.faults if fault.kind is LoadFaultKind.LIBRARY}
    groups: dict[tuple[str, str], list[LoadFault]] = {}
    for fault in tried.report.faults:
        told = (fault.path, fault.version) in versions or fault.root in lame
        if fault.kind is LoadFaultKind.SYMBOL and not told:
            groups.setdefault((fault.path, fault.root), []).append(fault)
    for faults in groups.values():
        yield from _judge_group(faults, tried)


def _judge_group(faults: list[LoadFault], tried: _Tried) -> Iterator[Finding]:
    """Judge what one object lacks, which was loaded through another one or by itself."""
    path, root = faults[0].path, faults[0].root
    library = tried.object(path)
    names = frozenset(fault.name for fault in faults)
    if library is not None:
        names -= find_python_symbols(library, names).anywhere
    if not _is_imported(root, tried):
        yield from _doubt(faults[0], names - _find_unresolved(path, tried.linkage), tried)
        names &= _find_unresolved(path, tried.linkage)
    if not names:
        return
    count = f"{len(names):,} symbols" if len(names) > 1 else "a symbol"
    shown = name_first(sorted(names), _SHOWN)
    why = f"nothing that it loads there defines {count} ({shown})"
    finding = _fail(faults[0], why, _find_cause(path, names, tried), tried)
    if isinstance(tried.linkage, Linkage) and _may_be_lent(path, names, tried.linkage):
        finding = _ease(finding, tried.linkage.loading_code)
    yield finding


def _may_be_lent(path: str, names: frozenset[str], linkage: Linkage) -> bool:
    """Whether code that says RTLD_GLOBAL may have the symbols defined by what others bring."""
    lacking = names & _find_unresolved(path, linkage)
    return linkage.loads_everywhere and (bool(linkage.requirements) or not lacking)


def _is_imported(root: str, tried: _Tried) -> bool:
    library = tried.object(root)
    return library is not None and is_extension(library)


def _doubt(fault: LoadFault, names: frozenset[str], tried: _Tried) -> Iterator[Finding]:
    """Say what a library may find in what is loaded before it: it is not imported by itself."""
    if names:
        shown = name_first(sorted(names), _SHOWN)
        why = f"only what is loaded before it may define {shown}"
        sentence = f"not loaded on {tried.report.system}: {why}"
        yield NotInspected(path=fault.path, sentence=sentence)


def _find_unresolved(path: str, linkage: Linkage | Package) -> frozenset[str]:
    """Symbols of a library that the simulation finds nowhere either."""
    unresolved = linkage.unresolved if isinstance(linkage, Linkage) else ()
    return frozenset(each.name for each in unresolved if each.path == path and not each.elsewhere)


def _find_cause(path: str, names: Iterable[str], tried: _Tried) -> str:
    if not isinstance(tried.linkage, Linkage):
        return ""
    wanted = frozenset(names)
    items = [i for i in tried.linkage.unresolved if i.path == path and i.name in wanted]
    return of_symbols(items, tried.linkage) if items else ""


def find_newer(claims: Claims, report: LoadReport) -> Iterator[Finding]:
    """Say which of the promised systems are older than the one that was tried, and were not.

    Raises NotApplicable where none promises a version of that C library.
    """
    libc, _, text = report.libc.partition(" ")
    version = read_numbers(text)
    promised = [
        claim
        for claim in claims.systems
        if claim.libc == libc and claim.minimum and report.architecture in claim.architectures
    ]
    if not promised:
        raise NotApplicable(f"the package promises no version of {libc or 'a C library'}")
    oldest = min(promised, key=lambda claim: claim.minimum or ())
    if (oldest.minimum or ()) < version:
        name = oldest.name.removesuffix(f"_{report.architecture}")
        yield NotInspected(sentence=f"{name} on {report.libc}: not inspected below {text}")
