"""Loading: needs that lead to objects, faults that are only warnings, loaders' reports."""

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
    find_toolkit,
    find_users_own,
    is_cuda_library,
    is_for_cpu,
    is_grafted_name,
    is_redistributable,
    list_frameworks,
)
from binary_checks.knowledge.python_libraries import find_python_symbols
from binary_checks.knowledge.sanitizers import find_required_first, find_sanitizer_in
from binary_checks.knowledge.tags import architectures_of
from binary_checks.model import (
    Claims,
    DispensableObject,
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
    directories,
    is_extension,
    read_numbers,
)
from binary_checks.wording.problem_lines import (
    OF_CPU_LABEL,
    name_end,
    of_library,
    of_need,
    of_other_architecture,
    of_other_build,
    of_other_version,
    of_refusal,
    of_requirement,
    of_symbols,
    of_toolkit,
    read_refusal,
)
from binary_checks.wording.sentences import describe_end, name_first

# The objects that are loaded together with a root, and the needs that lead to them.


@dataclass(frozen=True, kw_only=True, slots=True)
class Loading:
    """One simulated process: a root, and the objects loaded because of it."""

    root: str
    objects: tuple[str, ...]  # in load order, including ``wheel:...``
    # the edges of every object of the layout
    needs: Mapping[str, tuple[Edge, ...]] = field(repr=False)

    def edges(self) -> Iterator[Edge]:
        """Yield the needs at load time, object by object; leave out needs at a first call."""
        for path in self.objects:
            yield from (edge for edge in self.needs.get(path, ()) if is_eager(edge))

    def find(self, edge: Edge) -> str | None:
        """Return the object of this process that satisfies a need, or None."""
        if _target(edge) in self.objects:
            return _target(edge)
        name = edge.needed.rpartition("/")[2].lower()
        return next((o for o in self.objects if o.rpartition("/")[2].lower() == name), None)

    def chain(self, path: str) -> tuple[str, ...]:
        """Return the shortest path from the root to an object, both included."""
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
    """Return whether the loader refuses the object if the need is not satisfied."""
    return not (edge.delayed or edge.weak)


def find_loadings(linkage: Linkage) -> tuple[Loading, ...]:
    """Return every process in which the package's roots would be loaded.

    The processes include objects that must have been loaded before, such as torch's libraries,
    which are loaded when torch is imported.
    """
    needs: dict[str, tuple[Edge, ...]] = {}
    for edge in (*linkage.edges, *linkage.given_edges):
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
    """Return the files that imports load: extension modules, and files known to be opened then."""
    return frozenset(
        item.path
        for item in package.objects
        if is_extension(item)
        or any(
            fnmatchcase(package.layout.shorten(item.path), pattern) for pattern in opened_at_import
        )
    )


# Turning faults of objects that the package can do without into warnings.

_WINDOWING = re.compile(r"lib(?:X\w+|xcb|xkbcommon|SM|ICE)[-.\w]*\.so")
"""The libraries of the X Window System. A plugin that needs them shows windows; Qt's
platforms/libqxcb.so, which QtGui opens by a name computed at run time, fails on servers and minimal
images: "could not load the Qt platform plugin".
"""

_CUDA = re.compile(r"lib(?:cu\w+|nv\w+|nccl)\.so")
"""Libraries that torch contains or requires, and loads together with its own libraries."""


def downgrade(finding: Finding, linkage: Linkage | Package, edge: Edge | None = None) -> Finding:
    """Return the finding, as a warning if the package can do without the object.

    ``edge`` is the unsatisfied need if a library is missing. The level stays if that library was
    once in the package, or belongs to the X Window System. If only the import of the object may
    fail, missing libraries of other packages become warnings, but other findings do not. A missing
    library of a framework that the package does not require is a warning for every object. If
    ``linkage`` is a package, because its loader is not simulated, the finding is returned
    unchanged.
    """
    if isinstance(linkage, Package) or not isinstance(finding, Problem):
        return finding
    if edge is not None and (mild := _excuse_need(finding, linkage, edge)):
        return mild
    found = linkage.find_dispensable(finding.path)
    if found is None or not _is_excused(found, edge):
        return finding
    finding = _soften(finding, found.reason)
    if edge is None:
        return finding
    # It was left out on purpose, so bundling it is no advice.
    return replace(finding, cause=found.cause or finding.cause, command="")


def _excuse_need(problem: Problem, linkage: Linkage, edge: Edge) -> Problem | None:
    """Return the problem as a warning if others are expected to provide the library, else None."""
    framework = find_framework(edge, linkage)
    if framework and not is_framework_loaded(framework, linkage):
        mild = _soften(problem, f"that is part of {framework}, which the package does not require")
        fix = f"require {framework}, or load this file only where {framework} is installed"
        return replace(mild, command="", fix=fix)
    toolkit = find_users_toolkit(edge, linkage)
    if kind := toolkit or find_users_own(edge.needed):
        why = f"users install {kind} themselves"
        if toolkit and linkage.find_dispensable(edge.path) is None:
            why = f"{why}, and imports that load this file fail without it"
        which = "which versions fit" if toolkit else "which ones fit"
        fix = f"say in the documentation that users need {kind}, and {which}"
        return replace(_soften(problem, why), command="", fix=fix)
    return None


def _soften(problem: Problem, why: str) -> Problem:
    return replace(problem, sentence=f"{problem.sentence}; {why}", level=Level.WARNING)


def _is_excused(found: DispensableObject, edge: Edge | None) -> bool:
    """Return whether a fault of an object, or its unsatisfied need, is of no consequence."""
    if edge is None:
        return found.complete
    if _was_grafted(edge) or _WINDOWING.match(edge.needed):
        return False
    return found.complete or not edge.elsewhere


def is_for_others(path: str, package: Package) -> bool:
    """Return whether a library in the environment's ``lib`` is from a package without modules.

    Modules of other packages need the library together with its needs: modules of
    scikit-learn-intelex need libonedal.so.4, libonedal_parameters.so.4 and libstdc++.so.6, and
    search that folder.
    """
    layout, directory = package.layout, path.rpartition("/")[0]
    outside = bool(layout.site_packages) and directory == layout.libraries
    return outside and layout.climbs and not package.derive(_has_modules)


def _has_modules(package: Package) -> bool:
    return any(map(is_extension, package.objects))


def _was_grafted(edge: Edge) -> bool:
    """Return whether the library was once in the package, by its name or the searched folder.

    delocate keeps names; auditwheel and delvewheel add a hash to the names of libraries that they
    put into .libs. Therefore hdf5.dll, which netcdf4's plugins need, was never in netcdf4.libs,
    although that folder is searched.
    """
    kept = any(each.endswith(".dylibs") for each in edge.searched)
    return kept or is_grafted_name(edge.needed)


def find_framework(edge: Edge, linkage: Linkage) -> str:
    """Return the framework that a missing library is part of; "" for other libraries.

    A library of CUDA counts as the framework's if the object also lacks the framework's libraries.
    """
    if edge.elsewhere:
        return ""
    found = _match(edge.needed)
    if not found and _CUDA.match(edge.needed):
        found = linkage.derive(_find_frameworks).get((edge.path, edge.architecture), "")
    return found


def find_users_toolkit(edge: Edge, linkage: Linkage) -> str:
    """Return the software that has a missing library and that users install themselves, or "".

    The result is "" if the package contains another library of that software: then it was to be
    bundled, and a part of it was lost.
    """
    if edge.resolved is not None or edge.elsewhere:
        return ""
    needs = linkage.edges_of(edge.path, edge.architecture)
    toolkit = find_toolkit(edge.needed, (need.needed for need in needs))
    return "" if toolkit in linkage.derive(_find_bundled_toolkits) else toolkit


def _find_bundled_toolkits(linkage: Linkage) -> frozenset[str]:
    return frozenset(map(find_toolkit, linkage.names))


def name_shared_cause(edge: Edge, linkage: Linkage, package: Package) -> str:
    """Return the cause that missing libraries share, or "".

    They share one if they belong to a framework, to CUDA, to software that users install, or to an
    odd build.
    """
    foreign = "" if edge.resolved or edge.elsewhere else _find_foreign_name(edge, package)
    if foreign:
        return of_other_architecture(foreign)
    if edge.resolved is None and is_for_cpu(package) and is_cuda_library(edge.needed):
        return OF_CPU_LABEL
    if toolkit := find_users_toolkit(edge, linkage):
        return of_toolkit(toolkit)
    framework = "" if edge.resolved is not None else find_framework(edge, linkage)
    if not framework:
        return ""
    loaded = is_framework_loaded(framework, linkage)
    return of_other_build(framework) if loaded else of_requirement(framework)


def is_framework_loaded(framework: str, linkage: Linkage) -> bool:
    """Return whether the layout has a core library of a framework."""
    return any(map(list_frameworks()[framework].core.match, linkage.names))


def _match(needed: str) -> str:
    name = needed.rpartition("/")[2]
    frameworks = list_frameworks().items()
    return next((each for each, its in frameworks if its.libraries.match(name)), "")


def _find_frameworks(linkage: Linkage) -> dict[tuple[str, str], str]:
    """Return (path, architecture) -> framework for objects that lack a library of a framework."""
    found: dict[tuple[str, str], set[str]] = {}
    for edge in linkage.edges:
        if edge.resolved is None and (framework := _match(edge.needed)):
            found.setdefault((edge.path, edge.architecture), set()).add(framework)
    return {
        key: next(each for each in list_frameworks() if each in its) for key, its in found.items()
    }


# Separating faults of this host from faults of the package when the package is run.


def is_promised(name: str, claims: Claims) -> bool:
    """Return whether every system that a package claims has that library."""
    try:
        return bool(name) and name in systems.target_for(claims, frozenset()).libraries
    except (NotApplicable, Unavailable):
        return False


_ENDED = frozenset({Ending.CRASHED, Ending.EXITED, Ending.HUNG})
_IF_IT_ENDS = (
    "import it with ``python -X faulthandler`` or in a debugger: the code of a module's init "
    "function and the constructors of static objects run at the import"
)


def judge_refusal(
    step: Step, sentence: str, linkage: Linkage | Package, package: Package, *, path: str = ""
) -> Finding:
    """Return the finding for a failed step; a gap if only this host is to blame.

    A container may lack libGL.so.1, which every manylinux tag promises. If the package can do
    without an object, its missing library on this host shows nothing about users' machines.
    ``path`` is the path of an extension module, relative to the prefix.
    """
    cause = (
        _find_unloadable(step, package, path)
        or of_refusal(step.detail, linkage, package)
        or name_broken_source(step, package)
    )
    # Entry points of a module that fails to import fail with the same exception, and whatever loads
    # a module that crashes crashes in the same way.
    ended = describe_end(step) if step.outcome in _ENDED else ""
    raised = step.detail if step.outcome is Ending.RAISED else ended
    problem = Problem(
        path=path,
        sentence=sentence,
        facts=(step.name, name_end(step)),
        cause=cause or raised,
        consequence=bool(cause),
        fix=_IF_IT_ENDS if ended and not cause else "",
    )
    if not isinstance(linkage, Linkage):
        return problem
    name = read_refusal(step.detail)
    edges = [edge for edge in linkage.edges if name and edge.needed.rpartition("/")[2] == name]
    own = any(edge.resolved == f"system:{edge.needed}" for edge in edges)
    # The needs of libraries in requirements that were not given are unknown.
    if own or (not edges and is_promised(name, package.claims)):
        why = f"this system lacks {name}, which the platform tag promises"
        return NotInspected(path=path, sentence=f"{sentence}: {why}")
    missing = next((edge for edge in edges if edge.resolved is None), None)
    if missing is not None and (shared := name_shared_cause(missing, linkage, package)):
        problem = replace(problem, cause=shared)
    return downgrade(problem, linkage, missing)


def _find_unloadable(step: Step, package: Package, path: str) -> str:
    """Return the cause if no loader can load an object as it was built; "" otherwise.

    ``path`` is the path of an extension module; "" if the step imported a package.
    """
    refused = step.outcome is Ending.LOADER_ERROR and find_sanitizer_in(step.detail)
    if refused or step.outcome in (Ending.CRASHED, Ending.EXITED):
        runtime = package.derive(find_required_first).get(path, "") or refused
        return of_library(runtime) if runtime else ""
    foreign = package.derive(_find_foreign)
    names = (path.rpartition("/")[2], read_refusal(step.detail))
    return next((of_other_architecture(foreign[name]) for name in names if name in foreign), "")


def _find_foreign_name(edge: Edge, package: Package) -> str:
    """Return the architecture of an object that has a needed name, and no loader accepts; or ""."""
    found = package.derive(_find_foreign).get(edge.needed.rpartition("/")[2], "")
    return "" if found == edge.architecture else found


def _find_foreign(package: Package) -> Mapping[str, str]:
    """Return the architectures of objects that no claimed system accepts, by file name."""
    accepted = [architectures_of(claim) for claim in package.claims.systems]
    if not accepted or not all(accepted):
        return {}
    known = frozenset[str]().union(*accepted)
    return {i.file_name: i.architecture for i in package.objects if i.architecture not in known}


# Objects of a package that a check could not inspect, or the lack of any object.


def find_unread(
    package: Package,
    *,
    found: bool,
    absent: str,
    formats: Collection[Format] | None = None,
    concerns: Callable[[str], object] = bool,
) -> Iterator[NotInspected]:
    """Yield the objects that could not be read, among those whose path concerns the check.

    Raises NotApplicable with the reason ``absent`` if there are none, and the check has not
    ``found`` anything to judge either.
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
        yield make_gap(item)


def make_gap(item: MalformedObject | UnreadObject) -> NotInspected:
    """Return why an object could not be read, as a gap."""
    too_large = isinstance(item, UnreadObject) and item.too_large
    return NotInspected(path=item.path, sentence=item.reason, too_large=too_large)


def find_unloaded(linkage: Linkage, package: Package) -> Iterator[NotInspected]:
    """Yield the objects that could not be read, and are missing in the linkage.

    Also yields the platform tags that were not simulated. Raises NotApplicable if the package has
    no object that the target's loader would load.
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
    """Return why none of a package's native code could be judged, given its linkage or the error.

    Return "" if some of the code was judged, if there is no code, or if no loader was simulated.
    Files that are malformed or too large are not a gap here, because they fail.
    """
    reason = ""
    if isinstance(linkage, Unavailable):
        reason = str(linkage)
    elif isinstance(linkage, Linkage) and not linkage.closures:
        gaps = (*find_unjudged(linkage), *map(make_gap, package.unread))
        first = next((each for each in gaps if not each.too_large), NotInspected(sentence=""))
        where = f"{package.layout.shorten_label(first.path)}: " if first.path else ""
        reason = f"{where}{first.sentence}"
    return reason if package.objects or package.unread else ""


def find_unjudged(judged: Linkage | TargetSystem) -> Iterator[NotInspected]:
    """Yield the platform tags that the judged system does not represent."""
    name = judged.target if isinstance(judged, Linkage) else judged.name
    for tag in judged.unjudged:
        yield NotInspected(
            sentence=f"{tag} was not judged; {name.partition(',')[0]} was judged instead"
        )


# Comparing the libraries that a process has loaded with those of the simulated loader.

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


# Messages of a clean system's loader that report a fault of the package itself.
#
# The loader loads each object separately. Libraries that Python or the package's own code would
# have loaded before are missing; a fault that follows only from this is not a fault of the package.

_BEFORE = frozenset({Rule.LOADED, Rule.LOADED_FIRST})
_SHOWN = 3  # names of symbols in a message


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tried:
    """The loaded objects, and the facts about the package."""

    report: LoadReport
    linkage: Linkage | Package
    package: Package

    def edge(self, fault: LoadFault) -> Edge | None:
        """Return the simulation's result for a needed library, or None."""
        if not isinstance(self.linkage, Linkage):
            return None
        edges = self.linkage.edges_of(fault.path, self.report.architecture)
        named = (edge for edge in edges if edge.needed.rpartition("/")[2] == fault.name)
        return next(named, None)

    def object(self, path: str) -> ObjectFile | None:
        """Return the package's object at that path, or None."""
        return next((item for item in self.package.objects if item.path == path), None)


def judge_faults(
    report: LoadReport, linkage: Linkage | Package, package: Package
) -> Iterator[Finding]:
    """Judge each fault, together with all missing symbols of one object.

    Also yields the objects that were not tried.
    """
    tried = _Tried(report=report, linkage=linkage, package=package)
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
    return downgrade(problem, tried.linkage, edge)


def _judge_library(fault: LoadFault, tried: _Tried) -> Iterator[Finding]:
    edge = tried.edge(fault)
    name, resolved = fault.name, edge.resolved if edge else None
    before = edge and (edge.rule in _BEFORE or edge.weak or edge.proven)
    if before or (resolved or "").startswith("python:"):
        return
    promised = edge is None and is_promised(name, tried.package.claims)
    if promised or (resolved or "").startswith("system:"):
        why = f"it lacks {name}, which the platform tag promises"
        yield NotInspected(path=fault.path, sentence=f"not loaded on {tried.report.system}: {why}")
        return
    if edge and resolved is None and (edge.may_come_with or edge.unknown):
        # The object's own search does not find the library there, but importing that package first
        # loads it.
        why = f"{name} may come with {name_first(edge.may_come_with) or edge.unknown}"
        yield NotInspected(path=fault.path, sentence=f"not loaded on {tried.report.system}: {why}")
        return
    cause = of_library(name)
    if edge and isinstance(tried.linkage, Linkage):
        cause = of_need(edge, partial(directories, tried.package), tried.linkage.layout)
    finding = _fail(fault, f"{name} is not found there", cause, tried, edge)
    if edge and edge.elsewhere and isinstance(tried.linkage, Linkage):
        finding = _downgrade_for_own_code(finding, tried.linkage.loading_code)
    needed = any(each.name == name for item in tried.package.objects for each in item.needed)
    of_others = isinstance(tried.linkage, Linkage) and edge is None and not needed
    if of_others and isinstance(finding, Problem):
        sentence = f"{finding.sentence}; libraries of its requirements need it"
        finding = replace(finding, sentence=sentence, level=Level.WARNING)
    yield finding


def _downgrade_for_own_code(finding: Finding, code: str) -> Finding:
    """Turn a missing library into a warning if the package's own code may load it before."""
    if not code or not isinstance(finding, Problem):
        return finding
    sentence = f"{finding.sentence}; the package's own code may load it first ({code})"
    return replace(finding, sentence=sentence, level=Level.WARNING)


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
    path, root = faults[0].path, faults[0].root
    library = tried.object(path)
    names = frozenset(fault.name for fault in faults)
    if library is not None:
        names -= find_python_symbols(library, names).anywhere
    loaded = tried.object(root)
    if loaded is None or not is_extension(loaded):
        yield from _doubt(faults[0], names - _find_unresolved(path, tried.linkage), tried)
        names &= _find_unresolved(path, tried.linkage)
    if not names:
        return
    count = f"{len(names):,} symbols" if len(names) > 1 else "a symbol"
    shown = name_first(sorted(names), _SHOWN)
    why = f"no library that it loads there defines {count} ({shown})"
    first = replace(faults[0], name=min(names))
    finding = _fail(first, why, _find_cause(path, names, tried), tried)
    if isinstance(tried.linkage, Linkage) and _may_be_defined_globally(path, names, tried.linkage):
        finding = _downgrade_for_own_code(finding, tried.linkage.loading_code)
    yield finding


def _may_be_defined_globally(path: str, names: frozenset[str], linkage: Linkage) -> bool:
    """Return whether libraries of requirements, loaded with RTLD_GLOBAL, may define the symbols."""
    lacking = names & _find_unresolved(path, linkage)
    return linkage.loads_everywhere and (bool(linkage.requirements) or not lacking)


def _doubt(fault: LoadFault, names: frozenset[str], tried: _Tried) -> Iterator[Finding]:
    """Yield symbols that an object's importer may have loaded before."""
    if names:
        shown = name_first(sorted(names), _SHOWN)
        why = f"only libraries loaded before it may define {shown}"
        sentence = f"not loaded on {tried.report.system}: {why}"
        yield NotInspected(path=fault.path, sentence=sentence)


def _find_unresolved(path: str, linkage: Linkage | Package) -> frozenset[str]:
    """Return a library's symbols that the simulation does not find either."""
    unresolved = linkage.unresolved if isinstance(linkage, Linkage) else ()
    return frozenset(each.name for each in unresolved if each.path == path and not each.elsewhere)


def _find_cause(path: str, names: Iterable[str], tried: _Tried) -> str:
    if not isinstance(tried.linkage, Linkage):
        return ""
    wanted = frozenset(names)
    items = [i for i in tried.linkage.unresolved if i.path == path and i.name in wanted]
    return of_symbols(items, tried.linkage) if items else ""


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
