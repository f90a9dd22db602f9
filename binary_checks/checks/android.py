"""What Android's loader requires of libraries, by API level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.loading import downgrade
from binary_checks.model import ElfFile, Finding, Linkage, Problem, TargetSystem
from binary_checks.wording.sentences import format_symbols

_FIRST_WITH_RELR = 30


@check
def function_newer_than_api_level(
    library: ElfFile, linkage: Linkage, target: TargetSystem
) -> Iterator[Finding]:
    """An object needs a function of an Android library that its tag's API level lacks.

    The data are AOSP's own lists (``*.map.txt``) of the libraries that apps may use.

    Why: a tag ``android_24_…`` promises that the package loads on API level 24 and later; on older
    systems than the function the loader refuses the object: "cannot locate symbol".
    Fix: build with the API level of the tag (``ANDROID_API_LEVEL``, ``-target …-android24``), or
    raise the tag.
    Level: users of older systems install it, and the import fails. It is a warning if no import
    reaches the object (see missing-library).
    """
    level = _level_of(target)
    edges = linkage.edges_of(library.path, library.architecture)
    own = {edge.needed for edge in edges if (edge.resolved or "").startswith("system:")}
    newer: dict[str, int] = {}
    for name in library.imports.strong.get("", frozenset()).union(*library.imports.strong.values()):
        since = _find_level(name, target, own)
        if since > level:
            newer[name] = since
    if newer:
        highest = max(newer.values())
        problem = Problem(
            path=library.path,
            sentence=f"needs {format_symbols(sorted(newer))}, new in API level {highest}, while "
            f"{target.name.partition(',')[0]} promises API level {level}",
            facts=(min(newer), f"{highest}"),
            cause=f"built for API level {highest}",
        )
        yield downgrade(problem, linkage)


@check
def relocations_newer_than_api_level(library: ElfFile, target: TargetSystem) -> Iterator[Finding]:
    """An object has relative relocations (DT_RELR), which its tag's API level does not apply.

    Why: Android applies them since API level 30; older loaders ignore the table, and the first use
    of a pointer ends the process.
    Fix: link without ``-Wl,-z,pack-relative-relocs`` and ``-Wl,--pack-dyn-relocs=relr``; with
    ``--use-android-relr-tags``, API level 28 is enough.
    Level: on older systems the process ends at the import.
    """
    if _level_of(target) < _FIRST_WITH_RELR and library.relative_relocations:
        yield (
            f"has relocations in DT_RELR, which Android applies since API level {_FIRST_WITH_RELR}"
        )


def _level_of(target: TargetSystem) -> int:
    """Return the API level that the tag promises. Raises NotApplicable without one."""
    if target.system != "android" or target.minimum_os is None:
        raise NotApplicable("no tag is for Android")
    return target.minimum_os[0]


def _find_level(name: str, target: TargetSystem, needed: set[str]) -> int:
    """Return the API level that introduced a function of a needed library; 0 if it is unknown."""
    found: Mapping[str, frozenset[str]]
    for soname in needed:
        library = target.library_data.get(soname)
        found = library.symbols if library is not None else {}
        if name in found:
            return max(int(each.partition(".")[0]) for each in found[name])
    return 0
