"""Whether one process loads two copies of a runtime that must exist once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from binary_checks.declaring import check
from binary_checks.knowledge.gaps import find_unloaded
from binary_checks.knowledge.library_names import strip_graft
from binary_checks.model import Finding, Linkage, Package, Problem

_RUNTIMES = ("openmp", "libcudart", "libstdc++", "libc++", "libtbb", "libmpi", "libpython")
_LIBRARY = r"\.(?:so(?:\.|$)|dylib$|dll$)"
_NAMES = {
    "openmp": (("libgomp", "libomp", "libiomp", "vcomp"), r"[-.\d]"),
    "libcudart": (("libcudart", "cudart_", "cudart32_", "cudart64_"), r"[-.\d]"),
    "libstdc++": (("libstdc++",), r"[-.]"),
    "libc++": (("libc++",), r"[-.\d]"),
    "libtbb": (("libtbb", "tbb"), r"\d*[-.]"),
    "libmpi": (("libmpi",), r"[-.\d]"),
    "libpython": (("libpython",), r"\d"),
}
"""For each runtime, how its file names begin on any system and what follows, without a graft's
hash.
"""
_BEGINNINGS = tuple(beginning for beginnings, _ in _NAMES.values() for beginning in beginnings)
"""The beginnings of all runtimes, to rule out most files quickly."""


@check
def duplicate_runtime(
    linkage: Linkage, package: Package, *, runtimes: tuple[str, ...] = _RUNTIMES
) -> Iterator[Finding]:
    """Two copies of one runtime are loaded by one import.

    ``runtimes`` lists them; ``openmp`` is any of libgomp, libomp, libiomp5 and vcomp. Libraries
    whose copies do not interfere are not included: libgcc_s, libgfortran, libquadmath and
    libopenblas: healthy scipy and numpy wheels load two of each.

    Why: each copy has its own threads, locks and state: two OpenMP runtimes hang or start twice
    the threads, two CUDA runtimes do not know each other's kernels and errors, two copies of
    libstdc++ crash on each other's objects.
    Fix: link everything with one copy, and exclude the other from bundling.
    Level: the process hangs, crashes or computes with two states.
    """
    yield from find_unloaded(linkage, package)
    for root, loaded in linkage.closures:
        for runtime, copies in _count(loaded).items():
            if runtime in runtimes and len(copies) > 1:
                listed = ", ".join(map(linkage.layout.shorten_label, copies))
                sentence = f"loads {len(copies)} copies of {runtime}: {listed}"
                yield Problem(path=root, sentence=sentence, facts=(runtime,))


def _count(loaded: Iterable[str]) -> dict[str, list[str]]:
    copies: dict[str, list[str]] = {}
    for path in loaded:
        name = path.rpartition("/")[2].lower()
        if not name.startswith(_BEGINNINGS):
            continue
        name = strip_graft(name)
        if re.search(_LIBRARY, name):
            for runtime, (beginnings, rest) in _NAMES.items():
                if any(re.match(re.escape(each) + rest, name) for each in beginnings):
                    copies.setdefault(runtime, []).append(path)
    return copies
