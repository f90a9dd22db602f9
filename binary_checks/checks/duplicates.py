"""Whether one process gets two copies of a runtime that must be there once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from binary_checks.check import check
from binary_checks.checks.unloaded_objects import find_unloaded
from binary_checks.model import Finding, Linkage, Package, Problem

_RUNTIMES = ("openmp", "libcudart", "libstdc++", "libtbb", "libmpi", "libpython")
_HASH = re.compile(r"[-.][0-9a-f]{8}(?=[-.]|$)")
_FAMILY = re.compile(r"(?:system:|wheel:[^:]*:)?(?:.*/)?(lib[a-z+]+)\d*[-.\d]*\.so")
_OPENMP = frozenset({"libgomp", "libomp", "libiomp"})


@check
def duplicate_runtime(
    linkage: Linkage, package: Package, *, runtimes: tuple[str, ...] = _RUNTIMES
) -> Iterator[Finding]:
    """Two copies of one runtime are loaded by one import.

    ``runtimes`` names them; ``openmp`` is any of libgomp, libomp and libiomp5. Libraries whose
    copies keep out of each other's way are not among them: libgcc_s, libgfortran, libquadmath and
    libopenblas, of which healthy scipy and numpy wheels have two.

    Why: each copy has threads, locks and state of its own: two OpenMP runtimes hang or start twice
    the threads, two CUDA runtimes do not know each other's memory, two libstdc++ crash on each
    other's objects.
    Fix: link everything with one copy, and exclude the other from bundling.
    """
    yield from find_unloaded(linkage, package)
    for root, loaded in linkage.closures:
        for runtime, copies in _count(loaded).items():
            if runtime in runtimes and len(copies) > 1:
                yield Problem(
                    path=root,
                    sentence=f"loads {len(copies)} copies of {runtime}: {', '.join(copies)}",
                )


def _count(loaded: Iterable[str]) -> dict[str, list[str]]:
    copies: dict[str, list[str]] = {}
    for path in loaded:
        match = _FAMILY.match(_HASH.sub("", path))
        if match is not None:
            name = "openmp" if match[1] in _OPENMP else match[1]
            copies.setdefault(name, []).append(path)
    return copies
