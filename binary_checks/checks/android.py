"""What Android's loader requires of libraries, by API level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.loading import downgrade
from binary_checks.model import ElfFile, Finding, Kind, Linkage, Problem, Rule, TargetSystem
from binary_checks.wording.sentences import format_symbols

_RELOCATIONS = {"packed": ("DT_ANDROID_REL and RELA", 23), "relative": ("DT_ANDROID_RELR", 28)}
"""Name of the dynamic entry, and the first API level that applies them."""


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
def loader_feature_newer_than_api_level(
    library: ElfFile, linkage: Linkage, target: TargetSystem
) -> Iterator[Finding]:
    """An object needs a feature of Android's loader that its tag's API level lacks.

    These are hash tables of the GNU format without the older one and packed relocations (API level
    23), DT_RUNPATH (24), relative relocations (28 as DT_ANDROID_RELR, 30 as DT_RELR), and
    thread-local variables of ELF (29).

    Why: older loaders ignore relocations that they do not know, so that the first use of a pointer
    ends the process; they find no symbol without a hash table, and no library through DT_RUNPATH;
    they refuse thread-local variables.
    Fix: build with the API level of the tag (``ANDROID_API_LEVEL``, ``-target …-android24``): the
    NDK's tools then avoid what is newer. Link without ``-Wl,--pack-dyn-relocs=relr`` and
    ``-Wl,-z,pack-relative-relocs``.
    Level: on the older systems that the tag promises, the import fails.
    """
    level = _level_of(target)
    for what, since in _find_features(library, linkage):
        if since > level:
            yield Problem(
                path=library.path,
                sentence=f"{what}, which Android supports since API level {since}, while "
                f"{target.name.partition(',')[0]} promises API level {level}",
                facts=(f"{since}",),
            )


def _find_features(library: ElfFile, linkage: Linkage) -> Iterator[tuple[str, int]]:
    """Yield what an object needs of the loader, and since which API level Android has it."""
    if not library.sysv_hash:
        yield "has a hash table of the GNU format alone (DT_GNU_HASH)", 23
    if any(
        edge.rule is Rule.RUNPATH for edge in linkage.edges_of(library.path, library.architecture)
    ):
        yield "finds a library by DT_RUNPATH", 24
    for name in library.android_relocations:
        entry, since = _RELOCATIONS[name]
        yield f"has {name} relocations ({entry})", since
    if library.tls_size:
        yield "has thread-local variables of ELF (PT_TLS)", 29
    if library.relative_relocations:
        yield "has relative relocations (DT_RELR)", 30


@check
def no_section_headers(library: ElfFile, target: TargetSystem) -> Iterator[Finding]:
    """An object for Android has no section headers.

    Why: since API level 24 the loader finds the dynamic section by its section header, and refuses
    an object without: "has no section headers".
    Fix: strip with ``llvm-strip``, and not with tools that remove the headers (``sstrip``, packers,
    ``--strip-sections``).
    Level: no user can load the file.
    """
    _level_of(target)
    if library.kind is Kind.SHARED and not library.section_headers:
        yield "has no section headers: Android's loader refuses it"


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
