"""Object files and a target system in, linkage out: what the target's loader would do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from operator import itemgetter

from binary_checks.loaders import glibc, musl
from binary_checks.loaders.image import Image, load
from binary_checks.loaders.layout import Layout
from binary_checks.loaders.requirements import sort_out
from binary_checks.loaders.roots import load_roots
from binary_checks.loaders.rules import LoaderRules
from binary_checks.loaders.searches import Searches
from binary_checks.loaders.symbols import find_own_python_symbols, look_up
from binary_checks.loaders.versions import find_missing_versions
from binary_checks.model import Edge, Linkage, Package, Rule, TargetSystem

__all__ = ["simulate"]


def simulate(
    package: Package,
    target: TargetSystem,
    others: tuple[Package, ...] = (),
    requirements_given: bool = False,
    requirements: tuple[str, ...] = (),
) -> Linkage:
    """Load every root of the package into a process of its own, and look everything up.

    ``others`` are packages installed beside it; ``requirements`` the package's Requires-Dist, as
    it spells them; of ``others`` those are left out whose version it excludes. With
    ``requirements_given`` nothing else is expected to be there at run time.
    """
    rules: LoaderRules = musl if target.libc == "musl" else glibc
    beside = sort_out(requirements, others, target)
    layout = Layout(package, beside.packages)
    native = [item for item in layout.objects if item.architecture in target.architectures]
    loadings = load_roots(native, partial(load, searches=Searches(layout, target, rules)))
    images = (*loadings.roots, *loadings.orphans)
    symbols = look_up(images, layout, target, rules)
    missing = () if requirements_given else beside.missing
    return Linkage(
        target=target.name,
        unjudged=target.unjudged,
        edges=_merge(images, layout),
        roots=tuple(image.root.path for image in loadings.roots),
        orphans=loadings.unreached,
        closures=tuple((i.root.path, tuple(map(layout.label_of, i.objects))) for i in images),
        unresolved=symbols.unresolved,
        missing_versions=find_missing_versions(images, layout, target)
        if rules.CHECKS_VERSIONS
        else (),
        unexplored=symbols.unexplored,
        own_python_symbols=find_own_python_symbols(images, layout),
        requirements_given=not missing,
        requirements=missing,
        given=tuple(sorted({item.name for item in beside.packages})),
        refused=beside.refused,
    )


def _merge(images: Iterable[Image], layout: Layout) -> tuple[Edge, ...]:
    """One edge for each need of each object of the package: where processes differ, the worst."""
    merged: dict[tuple[str, str, str], tuple[Edge, str]] = {}
    for image in images:
        for edge in image.edges:
            if layout.origins.get(edge.path):
                continue
            key = (edge.path, edge.architecture, edge.needed)
            known = merged.get(key)
            if known is None or (edge is not known[0] and _badness(edge) > _badness(known[0])):
                merged[key] = edge, image.root.path
    return tuple(
        replace(edge, root=root) for _, (edge, root) in sorted(merged.items(), key=itemgetter(0))
    )


def _badness(edge: Edge) -> int:
    if edge.resolved is None:
        return 2
    return int(edge.rule is Rule.LOADED and edge.shadowed is None)
