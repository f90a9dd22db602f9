"""Lets the faults of objects that a package can do without warn, and fail nothing."""

from __future__ import annotations

import re
from dataclasses import replace

from binary_checks.knowledge.grafted_names import is_grafted_name
from binary_checks.knowledge.shipped_names import list_frameworks
from binary_checks.model import Edge, Finding, Level, Linkage, Package, Problem
from binary_checks.model.python_modules import is_extension

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
