"""Simulate the loader of a target system: object files in, linkage out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from packaging.utils import canonicalize_name

from binary_checks.loaders.file_layout import FileLayout, relocate
from binary_checks.loaders.image import (
    FirstLoads,
    Image,
    Loadings,
    Lookups,
    find_own_python_symbols,
    load,
    load_roots,
)
from binary_checks.loaders.loader import Answers, Loader
from binary_checks.loaders.required_packages import (
    find_indirect_providers,
    find_providers,
    match_requirements,
    separate_provided_symbols,
)
from binary_checks.model import (
    Edge,
    Format,
    Linkage,
    MissingVersion,
    Package,
    Rule,
    TargetSystem,
)

__all__ = ["simulate"]

_First = Mapping[str, tuple[str, ...]]


def simulate(
    package: Package,
    target: TargetSystem,
    others: tuple[Package, ...] = (),
    requirements: tuple[str, ...] = (),
    first_loads: _First | None = None,
) -> Linkage:
    """Load each root of a package into a separate process, and look up all symbols.

    ``others`` are packages installed next to it; a version that the package's requirements exclude
    is left out. ``requirements`` are those stated by the package, in its own spelling.
    ``first_loads`` maps the path of a root to the objects that Python has loaded before it.
    """
    matched = match_requirements(requirements, others, target)
    installed = tuple(relocate(each, package.layout) for each in matched.packages)
    simulate_system = _simulate_elf if target.system in _ELF else _simulate_processes
    simulation = simulate_system(package, installed, target, first_loads or {})
    missing = matched.missing
    layout, loadings = simulation.layout, simulation.loadings
    images = [image for each in loadings for image in (*each.roots, *each.orphans)]
    edges = _merge(images, layout, own=True)
    lookups = simulation.lookups
    unresolved, unexplored = separate_provided_symbols(package, lookups.unresolved, missing, target)
    given: dict[str, Package] = {canonicalize_name(p.name): p for p in matched.packages}
    edges = find_providers(package, edges, requirements, missing, target)
    closures = ((i.root.path, tuple(map(layout.label_of, i.objects))) for i in images)
    return Linkage(
        target=target.name,
        layout=package.layout,
        format=simulation.format,
        unjudged=target.unjudged,
        edges=find_indirect_providers(edges, given, target),
        given_edges=_merge((*images, *simulation.elsewhere), layout, own=False),
        roots=_each_once(image.root.path for each in loadings for image in each.roots),
        orphans=_each_once(path for each in loadings for path in each.unreached),
        closures=tuple(dict.fromkeys(closures)),
        unresolved=unresolved,
        missing_versions=simulation.missing_versions,
        unexplored=(*lookups.unexplored, *unexplored),
        unknown_exports=lookups.unknown_exports,
        mistyped=lookups.mistyped,
        own_python_symbols=find_own_python_symbols(images, layout),
        requirements=missing,
        names=layout.names,
        given=tuple(sorted({item.name for item in matched.packages})),
        refused=matched.refused,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Simulation:
    """The results of one system's loader, with the loadings for each promised architecture."""

    format: Format
    layout: FileLayout[Any]
    loadings: tuple[Loadings[Any], ...]
    lookups: Lookups
    # Objects of other packages that no search path finds, so that they must be loaded before.
    elsewhere: tuple[Image[Any], ...] = ()
    missing_versions: tuple[MissingVersion, ...] = ()


# A loader's module is imported only for packages of its system.

_ELF = frozenset({"linux", "android"})


def _simulate_elf(
    package: Package,
    others: tuple[Package, ...],
    target: TargetSystem,
    first: _First,
) -> _Simulation:
    from binary_checks.loaders import bionic, glibc, musl
    from binary_checks.loaders.elf import ElfLoader, find_missing_versions, look_up, mark_other_abi

    rules = {"musl": musl, "bionic": bionic}.get(target.libc, glibc)
    loader = ElfLoader(package, others, target, rules)
    loadings = _load(loader, target, first)
    images = (*loadings[0].roots, *loadings[0].orphans)
    found = look_up(images, loader)
    checks_versions = loader.rules.CHECKS_VERSIONS
    return _Simulation(
        format=Format.ELF,
        layout=loader.layout,
        loadings=loadings,
        lookups=replace(found, unresolved=mark_other_abi(found.unresolved, loader.layout, images)),
        elsewhere=_load_elsewhere(images, loader),
        missing_versions=find_missing_versions(images, loader.layout, target)
        if checks_versions
        else (),
    )


def _simulate_processes(
    package: Package,
    others: tuple[Package, ...],
    target: TargetSystem,
    first: _First,
) -> _Simulation:
    """Load the roots, and look up the symbols of every process."""
    container, make, look_up = _choose_loader(target.system)
    loader = make(package, others, target)
    loadings = _load(loader, target, first)
    images = [image for each in loadings for image in (*each.roots, *each.orphans)]
    return _Simulation(
        format=container,
        layout=loader.layout,
        loadings=loadings,
        lookups=look_up(images, loader),
        elsewhere=_load_elsewhere(images, loader),
    )


def _choose_loader(
    system: str,
) -> tuple[Format, Callable[..., Loader[Any]], Callable[[Iterable[Image[Any]], Any], Lookups]]:
    """Return the format of a system's objects, its loader, and how it looks up symbols."""
    if system == "emscripten":
        from binary_checks.loaders.emscripten import EmscriptenLoader, look_up

        return Format.WASM, EmscriptenLoader, look_up
    from binary_checks.loaders.bindings import look_up_bindings

    if system == "windows":
        from binary_checks.loaders.windows import WindowsLoader

        return Format.PE, WindowsLoader, look_up_bindings
    from binary_checks.loaders.dyld import Dyld

    return Format.MACHO, Dyld, look_up_bindings


def _load(loader: Loader[Any], target: TargetSystem, first: _First) -> tuple[Loadings[Any], ...]:
    """Load the roots for each promised architecture."""
    layout, before = loader.layout, FirstLoads(loader, first)
    fitting = (
        [item for item in layout.objects if layout.fits(item, architecture)]
        for architecture in target.architectures
    )
    return tuple(load_roots(objects, loader, before) for objects in fitting)


def _load_elsewhere(images: Iterable[Image[Any]], loader: Loader[Any]) -> tuple[Image[Any], ...]:
    """Load objects of other packages that no search path finds.

    Python may load such objects, as the import of torch loads torch's libraries.
    """
    edges = (edge for image in images for edge in image.outside if edge.resolved is None)
    labels = _each_once(edge.elsewhere[0] for edge in edges if edge.elsewhere)
    found = (loader.layout.labelled(label) for label in labels if label.startswith("wheel:"))
    return tuple(load(item, loader) for item in found if item is not None)


def _merge(images: Iterable[Image[Any]], layout: FileLayout[Any], *, own: bool) -> tuple[Edge, ...]:
    """Return one edge for each need of each object; if processes differ, the worst result.

    ``own`` selects the objects of the judged package instead of all others.
    """
    merged: dict[tuple[str, str], dict[str, Edge]] = {}
    seen: set[Answers] = set()
    for image in images:
        for item, answers in zip(image.objects, image.answers, strict=True):
            if answers in seen or own is not layout.is_own(item):
                continue
            seen.add(answers)
            edges = merged.setdefault((item.path, item.architecture), {})
            for edge in answers.edges:
                known = edges.get(edge.needed)
                if known is None or _badness(edge) > _badness(known):
                    edges[edge.needed] = _place(edge, layout.label(edge.path), image.root.path)
    return tuple(merged[key][name] for key in sorted(merged) for name in sorted(merged[key]))


def _place(edge: Edge, label: str, root: str) -> Edge:
    """Return an edge in the form of a Linkage; most of up to a million edges already have it."""
    if edge.path == label and edge.root == root:
        return edge
    return replace(edge, path=label, root=root)


def _badness(edge: Edge) -> int:
    if edge.resolved is None:
        return 2
    return int(edge.rule is Rule.LOADED and edge.shadowed is None)


def _each_once(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(paths))
