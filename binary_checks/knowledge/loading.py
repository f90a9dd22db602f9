"""Loading: what leads to what, what can warn only, and what real loaders say."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial

from binary_checks import systems
from binary_checks.errors import BinaryChecksError, NotApplicable, Unavailable
from binary_checks.knowledge.failed_imports import name_broken_source
from binary_checks.knowledge.library_names import (
    is_grafted_name,
    is_redistributable,
    list_frameworks,
)
from binary_checks.knowledge.python_libraries import find_python_symbols
from binary_checks.model import (
    Edge,
    Ending,
    ExtensionReport,
    Finding,
    Format,
    Layout,
    Level,
    Linkage,
    LoadFault,
    LoadFaultKind,
    LoadReport,
    MalformedObject,
    Note,
    NotInspected,
    ObjectFile,
    Package,
    Problem,
    Rule,
    Step,
    TargetSystem,
    UnreadObject,
)
from binary_checks.model.linkage import directories
from binary_checks.model.packages import Claims
from binary_checks.model.python_modules import is_extension
from binary_checks.model.system import read_numbers
from binary_checks.wording.problem_lines import (
    of_library,
    of_need,
    of_other_version,
    of_refusal,
    of_symbols,
    read_refusal,
)
from binary_checks.wording.sentences import name_first

# Follows what comes into a process with a file that is loaded: which need leads to which.


@dataclass(frozen=True, kw_only=True, slots=True)
class Loading:
    """One process of the linkage: a root, and what it loads."""

    root: str
    objects: tuple[str, ...]  # in load order, also ``wheel:...``
    needs: Mapping[str, tuple[Edge, ...]] = field(repr=False)  # of every object of the layout

    def edges(self) -> Iterator[Edge]:
        """What is needed while the root is loaded, not at a first call, object by object."""
        for path in self.objects:
            yield from (edge for edge in self.needs.get(path, ()) if is_eager(edge))

    def find(self, edge: Edge) -> str | None:
        """The object of this process that satisfies a need."""
        if _target(edge) in self.objects:
            return _target(edge)
        name = edge.needed.rpartition("/")[2].lower()
        return next((o for o in self.objects if o.rpartition("/")[2].lower() == name), None)

    def chain(self, path: str) -> tuple[str, ...]:
        """The shortest way from the root to an object, both included."""
        came: dict[str, str] = {self.root: ""}
        queue = [self.root]
        for item in queue:
            for edge in filter(is_eager, self.needs.get(item, ())):
                found = self.find(edge)
                if found is not None and found not in came:
                    came[found] = item
                    queue.append(found)
        way = [path]
        while came.get(way[-1]):
            way.append(came[way[-1]])
        return tuple(reversed(way))


def is_eager(edge: Edge) -> bool:
    """Whether the loader refuses the object without what it needs."""
    return not (edge.delayed or edge.weak)


def find_loadings(linkage: Linkage) -> tuple[Loading, ...]:
    """Every process that the package was loaded into.

    With what is there only if it was loaded before, as torch's libraries are once it is imported.
    """
    needs: dict[str, tuple[Edge, ...]] = {}
    for edge in (*linkage.edges, *linkage.edges_beside):
        needs[edge.path] = (*needs.get(edge.path, ()), edge)
    return tuple(
        Loading(root=root, objects=_complete(objects, needs), needs=needs)
        for root, objects in linkage.closures
    )


def _complete(objects: Iterable[str], needs: Mapping[str, tuple[Edge, ...]]) -> tuple[str, ...]:
    found = dict.fromkeys(objects)
    queue = list(found)
    for path in queue:
        for edge in filter(is_eager, needs.get(path, ())):
            target = _target(edge)
            if target and target not in found and not target.startswith(("system:", "python:")):
                found[target] = None
                queue.append(target)
    return tuple(found)


def _target(edge: Edge) -> str | None:
    return edge.resolved or next(iter(edge.elsewhere), None)


def find_imported(package: Package, opened_at_import: tuple[str, ...]) -> frozenset[str]:
    """The files that imports load: extension modules, and what is known to be opened there."""
    return frozenset(
        item.path
        for item in package.objects
        if is_extension(item)
        or any(
            fnmatchcase(package.layout.shorten(item.path), pattern) for pattern in opened_at_import
        )
    )


# Lets the faults of objects that a package can do without warn, and fail nothing.

_WINDOWING = re.compile(r"lib(?:X\w+|xcb|xkbcommon|SM|ICE)[-.\w]*\.so")
"""The libraries of X. A plugin that needs them shows the windows, and Qt's platforms/
libqxcb.so, which QtGui opens by a name computed at run time, is what users of servers and minimal
images miss: "could not load the Qt platform plugin"."""

_CUDA = re.compile(r"lib(?:cu\w+|nv\w+|nccl)\.so")
"""What torch brings and has loaded beside its own libraries."""


def soften(finding: Finding, linkage: Linkage | Package, edge: Edge | None = None) -> Finding:
    """The finding, a warning where its object is not reached; ``edge`` where a library is missing.

    Of an object that is only tried, it warns where a library lacks that was never in the package;
    of any object, where it is that of a framework which is not required.
    A package in place of its linkage, where no loader of its system is known, softens nothing.
    """
    if isinstance(linkage, Package) or not isinstance(finding, Problem):
        return finding
    if edge is not None and (framework := _find_framework(edge, linkage)):
        sentence = f"{finding.sentence}; it is {framework}'s, which the package does not require"
        return replace(finding, sentence=sentence, level=Level.WARNING)
    found = linkage.bystander(finding.path)
    if found is None:
        return finding
    if edge is not None and (_was_grafted(edge) or _WINDOWING.match(edge.needed)):
        return finding
    if not found.complete and (edge is None or edge.elsewhere):
        return finding
    sentence = f"{finding.sentence}; {found.reason}"
    return replace(finding, sentence=sentence, level=Level.WARNING)


def is_for_others(path: str, package: Package) -> bool:
    """Whether a library lies in the environment's ``lib`` and the package has no modules itself.

    The modules of other packages need it, with all that it needs: those of scikit-learn-intelex
    name libonedal.so.4, libonedal_parameters.so.4 and libstdc++.so.6, and search that folder.
    """
    layout, directory = package.layout, path.rpartition("/")[0]
    outside = bool(layout.site_packages) and directory == layout.libraries
    return outside and layout.climbs and not package.derive(_has_modules)


def _has_modules(package: Package) -> bool:
    return any(map(is_extension, package.objects))


def _was_grafted(edge: Edge) -> bool:
    """Whether the library was in the package: by its name or, as delocate keeps it, its place.

    auditwheel and delvewheel give what they put into .libs names with a hash: hdf5.dll, which
    netcdf4's plugins need, was never in the netcdf4.libs that is searched for all of them.
    """
    kept = any(each.endswith(".dylibs") for each in edge.searched)
    return kept or is_grafted_name(edge.needed)


def _find_framework(edge: Edge, linkage: Linkage) -> str:
    """The framework that a missing library is of, or that has loaded it when the object is."""
    if edge.elsewhere:
        return ""
    found = _match(edge.needed)
    if not found and _CUDA.match(edge.needed):
        found = linkage.derive(_find_frameworks).get((edge.path, edge.architecture), "")
    return "" if found and any(map(list_frameworks()[found].core.match, linkage.names)) else found


def _match(needed: str) -> str:
    name = needed.rpartition("/")[2]
    frameworks = list_frameworks().items()
    return next((each for each, its in frameworks if its.libraries.match(name)), "")


def _find_frameworks(linkage: Linkage) -> dict[tuple[str, str], str]:
    """By path and architecture of objects, the framework of which one lacks a library."""
    found: dict[tuple[str, str], set[str]] = {}
    for edge in linkage.edges:
        if edge.resolved is None and (framework := _match(edge.needed)):
            found.setdefault((edge.path, edge.architecture), set()).add(framework)
    return {
        key: next(each for each in list_frameworks() if each in its) for key, its in found.items()
    }


# Tells what only this host lacks or has from what a package does, when that is run.


def is_promised(name: str, claims: Claims) -> bool:
    """Whether every system that a package claims has that library."""
    try:
        return bool(name) and name in systems.target_for(claims, frozenset()).libraries
    except (NotApplicable, Unavailable):
        return False


def judge_refusal(
    step: Step, sentence: str, linkage: Linkage | Package, package: Package, *, path: str = ""
) -> Finding:
    """What is to be said of a step that failed: nothing where this host alone is to blame.

    A container may lack libGL.so.1, which every manylinux tag promises; and whether an object that
    the package can do without finds its library here says nothing of users. ``path`` is that of an
    extension module, in the prefix.
    """
    cause = of_refusal(step.detail, linkage, package) or name_broken_source(step, package)
    # What an import raises, the entry points of its modules raise, too.
    raised = step.detail if step.outcome is Ending.RAISED else ""
    problem = Problem(path=path, sentence=sentence, cause=cause or raised, consequence=bool(cause))
    if not isinstance(linkage, Linkage):
        return problem
    name = read_refusal(step.detail)
    edges = [edge for edge in linkage.edges if name and edge.needed.rpartition("/")[2] == name]
    own = any(edge.resolved == f"system:{edge.needed}" for edge in edges)
    # Nobody knows what the libraries of its requirements need, which were not given.
    if own or (not edges and is_promised(name, package.claims)):
        why = f"this system lacks {name}, which the platform tag promises"
        return NotInspected(path=path, sentence=f"{sentence}: {why}")
    missing = next((edge for edge in edges if edge.resolved is None), None)
    return soften(problem, linkage, missing)


# Says at which objects of a package a check could not look, or that there is none.


def find_unread(
    package: Package,
    *,
    found: bool,
    absent: str,
    formats: Collection[Format] | None = None,
    concerns: Callable[[str], object] = bool,
) -> Iterator[NotInspected]:
    """Find the objects that nobody could read, among those whose path concerns the check.

    Raises NotApplicable, for the reason that ``absent`` gives, where there is none and the check
    has not ``found`` what it speaks of either.
    """
    every: tuple[MalformedObject | UnreadObject, ...] = (*package.malformed, *package.unread)
    unread = [
        item
        for item in every
        if (formats is None or item.format in formats) and concerns(item.path)
    ]
    if not (unread or found):
        raise NotApplicable(absent)
    for item in unread:
        yield could_not_look(item)


def could_not_look(item: MalformedObject | UnreadObject) -> NotInspected:
    """Say of one object why nobody could read it."""
    too_large = isinstance(item, UnreadObject) and item.too_large
    return NotInspected(path=item.path, sentence=item.reason, too_large=too_large)


def find_unloaded(linkage: Linkage, package: Package) -> Iterator[NotInspected]:
    """Find the objects that nobody could read, so that the linkage says nothing of them.

    And the platform tags for which nothing was loaded. Raises NotApplicable where the package has
    nothing that the target's loader would load.
    """
    yield from find_unjudged(linkage)
    platform = linkage.target.partition(",")[0]
    yield from find_unread(
        package,
        found=bool(linkage.closures or linkage.unjudged),
        absent=f"no {linkage.format} object that is loaded on {platform}",
        formats=(linkage.format,),
    )


def explain_unjudged(package: Package, linkage: Linkage | BinaryChecksError | None) -> str:
    """Say why none of a package's native code could be judged, given what a loader makes of it.

    Return "" where some of it was judged, where there is none, and where nobody asked for a loader.
    Files that are malformed or too large are no gap here: that they fail is the verdict.
    """
    reason = ""
    if isinstance(linkage, Unavailable):
        reason = str(linkage)
    elif isinstance(linkage, Linkage) and not linkage.closures:
        gaps = (*find_unjudged(linkage), *map(could_not_look, package.unread))
        first = next((each for each in gaps if not each.too_large), NotInspected(sentence=""))
        where = f"{package.layout.shorten_label(first.path)}: " if first.path else ""
        reason = f"{where}{first.sentence}"
    return reason if package.objects or package.unread else ""


def find_unjudged(judged: Linkage | TargetSystem) -> Iterator[NotInspected]:
    """Find the platform tags that another system stands for than the one judged."""
    name = judged.target if isinstance(judged, Linkage) else judged.name
    for tag in judged.unjudged:
        yield NotInspected(sentence=f"{tag} was not judged: {name.partition(',')[0]} was")


# Compares the libraries that a process has loaded with those that the simulated loader names.

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


# What the words of a clean system's loader say of a package: what is its own fault, what not.
#
# The loader is asked for each object alone. What Python, or the package's own code, has loaded
# before is not there for it, and what only that lacks is no fault.

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
