"""Messages of a clean system's loader that report a fault of the package itself.

The loader loads each object separately. Libraries that Python or the package's own code would
have loaded before are missing; a fault that follows only from this is not a fault of the package.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from binary_checks.errors import NotApplicable
from binary_checks.knowledge.loading import downgrade, is_promised, soften
from binary_checks.knowledge.python_libraries import find_python_symbols
from binary_checks.model import (
    Claims,
    Edge,
    Finding,
    Linkage,
    LoadFault,
    LoadFaultKind,
    LoadReport,
    Note,
    NotInspected,
    Package,
    Problem,
    Rule,
    directories,
    is_extension,
    read_numbers,
)
from binary_checks.wording.problem_lines import (
    of_library,
    of_need,
    of_other_version,
    of_symbols,
)
from binary_checks.wording.sentences import name_first

_BEFORE = frozenset({Rule.LOADED, Rule.LOADED_FIRST})
_SHOWN = 3  # names of symbols in a message


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tried:
    """The loaded objects, and the facts about the package."""

    report: LoadReport
    linkage: Linkage | None  # None if the loader is not simulated
    package: Package
    own_code: str  # how the package's own code may load a missing library before; "" if it cannot


def judge_faults(
    report: LoadReport, linkage: Linkage | Package, package: Package
) -> Iterator[Finding]:
    """Judge each fault, together with all missing symbols of one object.

    Also yields the objects that were not tried.
    """
    simulated = linkage if isinstance(linkage, Linkage) else None
    code = simulated.loading_code if simulated else ""
    own_code = f"the package's own code may load it first ({code})" if code else ""
    tried = _Tried(report=report, linkage=simulated, package=package, own_code=own_code)
    for fault in report.faults:
        if fault.kind is LoadFaultKind.LIBRARY:
            yield from _judge_library(fault, tried)
        elif fault.kind is LoadFaultKind.VERSION:
            lacks = f"{fault.provider} of that system does not define {fault.version}"
            cause = of_other_version(fault.provider)
            yield _fail(fault, f"{lacks}, which it needs", cause, tried)
        elif fault.kind is LoadFaultKind.REFUSED:
            yield _fail(fault, fault.detail, "", tried)
    yield from _judge_symbols(tried)
    if report.loaded:
        counted = f"{len(report.loaded):,} objects were" if report.loaded[1:] else "1 object was"
        yield Note(sentence=f"{counted} loaded on {report.system}, each with everything it needs")
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
        facts=tuple(filter(None, (fault.name, fault.provider, fault.version))),
        cause=cause,
        consequence=bool(cause),
    )
    return downgrade(problem, tried.linkage or tried.package, edge)


def _judge_library(fault: LoadFault, tried: _Tried) -> Iterator[Finding]:
    name, linkage = fault.name, tried.linkage
    edges = linkage.edges_of(fault.path, tried.report.architecture) if linkage else ()
    edge = next((each for each in edges if each.needed.rpartition("/")[2] == name), None)
    resolved = edge.resolved if edge else None
    before = edge and (edge.rule in _BEFORE or edge.weak or edge.proven)
    if before or (resolved or "").startswith("python:"):
        return
    why = ""
    promised = edge is None and is_promised(name, tried.package.claims)
    if promised or (resolved or "").startswith("system:"):
        why = f"it lacks {name}, which the platform tag promises"
    elif edge and resolved is None and (edge.may_come_with or edge.unknown):
        # The object's own search does not find the library there, but importing that package first
        # loads it.
        why = f"{name} may come with {name_first(edge.may_come_with) or edge.unknown}"
    if why:
        yield NotInspected(path=fault.path, sentence=f"not loaded on {tried.report.system}: {why}")
        return
    cause = of_library(name)
    if edge and linkage:
        cause = of_need(edge, partial(directories, tried.package), linkage.layout)
    finding = _fail(fault, f"{name} is not found there", cause, tried, edge)
    if edge and edge.elsewhere:
        finding = soften(finding, tried.own_code)
    needed = any(each.name == name for item in tried.package.objects for each in item.needed)
    if linkage and edge is None and not needed:
        finding = soften(finding, "libraries of its requirements need it")
    yield finding


def _judge_symbols(tried: _Tried) -> Iterator[Finding]:
    versions = {
        (fault.path, fault.version)
        for fault in tried.report.faults
        if fault.kind is LoadFaultKind.VERSION
    }
    incomplete = {
        fault.root for fault in tried.report.faults if fault.kind is LoadFaultKind.LIBRARY
    }
    groups: dict[tuple[str, str], list[LoadFault]] = {}
    for fault in tried.report.faults:
        explained = (fault.path, fault.version) in versions or fault.root in incomplete
        if fault.kind is LoadFaultKind.SYMBOL and not explained:
            groups.setdefault((fault.path, fault.root), []).append(fault)
    for faults in groups.values():
        yield from _judge_group(faults, tried)


def _judge_group(faults: list[LoadFault], tried: _Tried) -> Iterator[Finding]:
    """Judge missing symbols of one object, loaded through another object or on its own."""
    path, root, linkage = faults[0].path, faults[0].root, tried.linkage
    objects = {item.path: item for item in reversed(tried.package.objects)}
    names = frozenset(fault.name for fault in faults)
    if path in objects:
        names -= find_python_symbols(objects[path], names).anywhere
    # symbols that the simulation does not find either
    lacking = [each for each in linkage.unresolved if each.path == path] if linkage else []
    unresolved = frozenset(each.name for each in lacking if not each.elsewhere)
    if root not in objects or not is_extension(objects[root]):
        if doubtful := names - unresolved:  # its importer may have loaded a library before
            shown = name_first(sorted(doubtful), _SHOWN)
            why = f"only libraries loaded before it may define {shown}"
            sentence = f"not loaded on {tried.report.system}: {why}"
            yield NotInspected(path=path, sentence=sentence)
        names &= unresolved
    if not names:
        return
    count = f"{len(names):,} symbols" if len(names) > 1 else "a symbol"
    shown = name_first(sorted(names), _SHOWN)
    why = f"no library that it loads there defines {count} ({shown})"
    first = replace(faults[0], name=min(names))
    items = [each for each in lacking if each.name in names]
    cause = of_symbols(items, linkage) if items and linkage else ""
    finding = _fail(first, why, cause, tried)
    # libraries of requirements, loaded with RTLD_GLOBAL, may define the symbols
    if linkage and linkage.loads_everywhere and (linkage.requirements or not names & unresolved):
        finding = soften(finding, tried.own_code)
    yield finding


def find_newer(claims: Claims, report: LoadReport) -> Iterator[Finding]:
    """Yield the oldest promised system if it is older than the one that was tried."""
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
