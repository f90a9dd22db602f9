"""Loading: needs that lead to objects, faults that are only warnings, imports that failed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from binary_checks import systems
from binary_checks.errors import NotApplicable, Unavailable
from binary_checks.knowledge.failed_imports import name_broken_source
from binary_checks.knowledge.library_names import (
    find_toolkit,
    find_users_own,
    is_cuda_library,
    is_for_cpu,
    is_grafted_name,
    list_frameworks,
)
from binary_checks.knowledge.sanitizers import find_required_first, find_sanitizer_in
from binary_checks.knowledge.tags import architectures_of
from binary_checks.model import (
    Claims,
    DispensableObject,
    Edge,
    Ending,
    Finding,
    Level,
    Linkage,
    NotInspected,
    Package,
    Problem,
    Step,
    is_extension,
)
from binary_checks.wording.problem_lines import (
    OF_CPU_LABEL,
    name_end,
    of_library,
    of_other_architecture,
    of_other_build,
    of_refusal,
    of_requirement,
    of_toolkit,
    read_refusal,
)
from binary_checks.wording.sentences import describe_end

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


# Facts that make an error a warning: users are not affected, or expect to be.

_WINDOWING = re.compile(r"lib(?:X\w+|xcb|xkbcommon|SM|ICE)[-.\w]*\.so")
"""The libraries of the X Window System. A plugin that needs them shows windows; Qt's
platforms/libqxcb.so, which QtGui opens by a name computed at run time, fails on servers and minimal
images: "could not load the Qt platform plugin".
"""

_CUDA = re.compile(r"lib(?:cu\w+|nv\w+|nccl)\.so")
"""Libraries that torch contains or requires, and loads together with its own libraries."""


def downgrade(finding: Finding, linkage: Linkage | Package, *edges: Edge | None) -> Finding:
    """Return the finding, as a warning if users are not affected, or expect to be.

    ``edges`` are the unsatisfied needs if libraries are missing: each of them must be excused, by a
    fact in ``_EXCUSES`` or because the package can do without the object. If ``linkage`` is a
    package, because its loader is not simulated, the finding is returned unchanged.
    """
    if isinstance(linkage, Package) or not isinstance(finding, Problem):
        return finding
    spare = linkage.find_dispensable(finding.path)
    needs = [edge for edge in edges if edge is not None]
    if not needs:
        return soften(finding, spare.reason if spare is not None and spare.complete else "")
    found = [_find_excuse(edge, linkage, spare) for edge in needs]
    if found[0] is None or None in found:
        return finding
    reason, fix, cause = found[0]
    # Others ship the library, or it was left out on purpose, so bundling it is no advice.
    return soften(
        replace(finding, command="", fix=fix or finding.fix, cause=cause or finding.cause), reason
    )


def _find_excuse(
    edge: Edge, linkage: Linkage, spare: DispensableObject | None
) -> tuple[str, str, str] | None:
    """Return why nothing must provide a library, what to do instead, and the cause; or None.

    A library that was once in the package, or belongs to the X Window System, is not excused
    because the package can do without the object. If only the import of the object may fail,
    libraries of other packages are excused.
    """
    for find, reason, fix in _EXCUSES:
        if name := find(edge, linkage):
            return reason.format(name), fix.format(name), ""
    if spare is None or _was_grafted(edge) or _WINDOWING.match(edge.needed):
        return None
    if spare.complete or not edge.elsewhere:
        return spare.reason, "", spare.cause
    return None


def soften(finding: Finding, why: str) -> Finding:
    """Return a problem as a warning that states the reason; any finding unchanged without one."""
    if not why or not isinstance(finding, Problem):
        return finding
    return replace(finding, sentence=f"{finding.sentence}; {why}", level=Level.WARNING)


def is_for_others(path: str, package: Package) -> bool:
    """Return whether a library in the environment's ``lib`` is from a package without modules.

    Modules of other packages need the library together with its needs: modules of
    scikit-learn-intelex need libonedal.so.4, libonedal_parameters.so.4 and libstdc++.so.6, and
    search that folder.
    """
    layout, directory = package.layout, path.rpartition("/")[0]
    return (
        bool(layout.site_packages)
        and directory == layout.libraries
        and layout.climbs
        and not any(map(is_extension, package.objects))
    )


def _was_grafted(edge: Edge) -> bool:
    """Return whether the library was once in the package, by its name or the searched folder.

    delocate keeps names; auditwheel and delvewheel add a hash to the names of libraries that they
    put into .libs. Therefore hdf5.dll, which netcdf4's plugins need, was never in netcdf4.libs,
    although that folder is searched.
    """
    return is_grafted_name(edge.needed) or any(d.endswith(".dylibs") for d in edge.searched)


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


def _find_absent_framework(edge: Edge, linkage: Linkage) -> str:
    framework = find_framework(edge, linkage)
    return "" if framework and is_framework_loaded(framework, linkage) else framework


def _find_demanded_toolkit(edge: Edge, linkage: Linkage) -> str:
    """Return the software without which users cannot import the package, or ""."""
    return "" if linkage.find_dispensable(edge.path) else find_users_toolkit(edge, linkage)


_EXCUSES: tuple[tuple[Callable[[Edge, Linkage], str], str, str], ...] = (
    (
        _find_absent_framework,
        "that is part of {}, which the package does not require",
        "require {0}, or load this file only where {0} is installed",
    ),
    (
        _find_demanded_toolkit,
        "users install {} themselves, and imports that load this file fail without it",
        "say in the documentation that users need {}, and which versions fit",
    ),
    (
        find_users_toolkit,
        "users install {} themselves",
        "say in the documentation that users need {}, and which versions fit",
    ),
    (
        lambda edge, _: find_users_own(edge.needed),
        "users install {} themselves",
        "say in the documentation that users need {}, and which ones fit",
    ),
)
"""Facts that make a missing library a warning: who has it, the reason, and what to do instead."""


def name_shared_cause(edge: Edge, linkage: Linkage, package: Package) -> str:
    """Return the cause that missing libraries share, or "".

    They share one if they belong to a framework, to CUDA, to software that users install, or to an
    odd build.
    """
    # an object has that name, but no loader accepts it
    foreign = package.derive(_find_foreign).get(edge.needed.rpartition("/")[2], "")
    if foreign not in ("", edge.architecture) and not (edge.resolved or edge.elsewhere):
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
    return next((each for each, its in list_frameworks().items() if its.libraries.match(name)), "")


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
        lack = f"{sentence}: this system lacks {name}, which the platform tag promises"
        return NotInspected(path=path, sentence=lack)
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


def _find_foreign(package: Package) -> Mapping[str, str]:
    """Return the architectures of objects that no claimed system accepts, by file name."""
    accepted = [architectures_of(claim) for claim in package.claims.systems]
    if not accepted or not all(accepted):
        return {}
    known = frozenset[str]().union(*accepted)
    return {i.file_name: i.architecture for i in package.objects if i.architecture not in known}
