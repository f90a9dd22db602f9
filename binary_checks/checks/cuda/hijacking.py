"""Whether libraries of another CUDA, in a directory of the user's, replace the right ones."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.cuda_builds import demand_cuda
from binary_checks.knowledge.grafted_names import is_grafted_name
from binary_checks.knowledge.loadings import Loading, find_imported, find_loadings
from binary_checks.knowledge.nvidia_names import is_driver_library
from binary_checks.knowledge.unloaded_objects import find_unloaded
from binary_checks.model import (
    Edge,
    ElfFile,
    Finding,
    Format,
    Linkage,
    Note,
    NotInspected,
    Package,
    Problem,
    Rule,
)
from binary_checks.wording.phrases import name_first

_LIBRARIES = (
    "libcublas*",
    "libcudart*",
    "libcudnn*",
    "libcufft*",
    "libcufile*",
    "libcupti*",
    "libcurand*",
    "libcusolver*",
    "libcusparse*",
    "libcutensor*",
    "libnccl*",
    "libnvJitLink*",
    "libnvrtc*",
    "libnvshmem*",
    "libnvToolsExt*",
    "libnvjpeg*",
    "libnpp*",
)
_GIVE = "give wheels that provide them (--binary-with), or use --binary-with-requirements"
_REPLACEABLE = frozenset({Rule.RUNPATH, Rule.SYSTEM})


@check(enabled=False)
def hijackable_library(
    linkage: Linkage, package: Package, *, libraries: tuple[str, ...] = _LIBRARIES
) -> Iterator[Finding]:
    """A directory in LD_LIBRARY_PATH can replace the package's library with another one.

    Reported are the libraries that would change if a directory of older ones came first there:
    those found through a DT_RUNPATH, or only on the system. Libraries found through a DT_RPATH, or
    already loaded, would not. ``libraries`` are globs on needed names, by default CUDA's. Off by
    default: LD_LIBRARY_PATH is meant to precede RUNPATH, which linkers write by default. Where an
    object of a required wheel is the cause, that is noted.

    Why: machines with a CUDA toolkit often have it in LD_LIBRARY_PATH; then libnvJitLink, cuDNN or
    NCCL of that toolkit is loaded with the package's other libraries, and the import fails with
    "undefined symbol", or results are wrong.
    Fix: ``patchelf --force-rpath --set-rpath`` or ``-Wl,--disable-new-dtags``; or make an object
    with a DT_RPATH need the library itself, before the one with the RUNPATH does.
    Level: users with another CUDA in LD_LIBRARY_PATH cannot import the package, or get wrong
    results.
    """
    if linkage.format != Format.ELF:
        raise NotApplicable("Python does not search PATH for a module's dependencies on Windows")
    demand_cuda(package, linkage)
    yield from find_unloaded(linkage, package)
    runpaths = {i.path for i in package.objects_of(ElfFile) if i.runpath not in {(), ("",)}}
    loadings = find_loadings(linkage)
    imported = find_imported(package, ())
    before = {o for loading in loadings if loading.root in imported for o in loading.objects}
    found: dict[tuple[str, str], Edge] = {}
    for loading in loadings:
        seen = set() if loading.root in imported else before
        for edge in _find_open_doors(loading, libraries, runpaths, seen):
            found.setdefault((edge.path, edge.needed), edge)
    for edge in found.values():
        yield _accuse(edge)
    lost = {edge.needed for edge in linkage.edges if _is_to_come(edge)}
    if names := name_first(sorted(name for name in lost if _fits(name, libraries)), 8):
        yield NotInspected(sentence=f"the dependencies of {names} are unknown: {_GIVE}")


def _find_open_doors(
    loading: Loading,
    libraries: tuple[str, ...],
    runpaths: set[str],
    before: set[str],
) -> Iterator[Edge]:
    """The needs that a process has to search for, and finds after LD_LIBRARY_PATH at best."""
    loaded = {*before, loading.root}
    for edge in loading.edges():
        found = loading.find(edge)
        is_loaded = found is not None and found in loaded
        if found is not None:
            loaded.add(found)
        if not is_loaded and _fits(edge.needed, libraries):
            to_come = edge.path in runpaths and _is_to_come(edge)
            if edge.rule in _REPLACEABLE or to_come:
                yield edge


def _fits(name: str, libraries: tuple[str, ...]) -> bool:
    asked_for = any(fnmatchcase(name, each) for each in libraries)
    return asked_for and not is_driver_library(name) and not is_grafted_name(name)


def _is_to_come(edge: Edge) -> bool:
    """Whether a required wheel that was not given may bring it."""
    return edge.resolved is None and bool(edge.may_come_with and edge.searched)


def _accuse(edge: Edge) -> Problem | Note:
    by = "only the system" if edge.rule is Rule.SYSTEM else "a RUNPATH"
    sentence = (
        f"finds {edge.needed} by {by}: a directory in LD_LIBRARY_PATH precedes that, and a "
        "library of another CUDA there replaces it; use patchelf --force-rpath"
    )
    kind = Note if edge.path.startswith("wheel:") else Problem
    return kind(path=edge.path, sentence=sentence)
