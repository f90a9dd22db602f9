"""Whether a package ships, needs and exports the libraries and symbols its project expects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase, translate

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.unloaded_objects import find_unread
from binary_checks.model import (
    ElfFile,
    Finding,
    Kind,
    MachOFile,
    NotInspected,
    Package,
    PeFile,
    Problem,
)
from binary_checks.wording.phrases import name_first


@check(enabled=False)
def banned_library(package: Package, *, banned: tuple[str, ...] = ()) -> Iterator[Finding]:
    """A package ships or needs a library that the profile bans.

    ``banned`` are globs on the file name of a library that it ships or needs, ignoring case:
    ``*openblas*.dylib`` is OpenBLAS on macOS only.

    Why: the project has chosen another one; two of a kind in one process make it slower, change
    its results, or break it.
    Fix: check which library the build found (CMake's cache), and disable the search for it.
    Level: the project itself bans it.
    """
    if not banned:
        yield NotInspected(sentence="no library is banned: the option banned is empty")
        return
    yield from find_unread(package, found=bool(package.objects), absent="no object file")
    for item in package.objects:
        for name in dict.fromkeys((item.file_name, _base(item.name))):
            if name and (glob := _find_glob(name, banned)):
                yield Problem(path=item.path, sentence=f"is {name}: the profile bans {glob}")
        for need in item.needed:
            if glob := _find_glob(_base(need.name), banned):
                yield Problem(
                    path=item.path, sentence=f"needs {need.name}: the profile bans {glob}"
                )


def _base(name: str) -> str:
    return name.rpartition("/")[2]


def _find_glob(name: str, globs: Iterable[str]) -> str:
    return next((glob for glob in globs if fnmatchcase(name.lower(), glob.lower())), "")


@check(enabled=False)
def banned_export(
    library: ElfFile | MachOFile | PeFile, *, banned: tuple[str, ...] = ()
) -> Iterator[Finding]:
    """A library exports symbols that the profile bans.

    ``banned`` are globs on the names as the file has them: ``_ZNSt10filesystem*`` are functions of
    std::filesystem that some compilers of older systems link statically.

    Why: other libraries in the process use them in place of their own, of another version.
    Fix: link with a version script or ``-Wl,--exclude-libs,ALL``, which hide statically linked
    symbols.
    Level: the project itself bans it.
    """
    if not banned:
        yield NotInspected(sentence="no symbol is banned: the option banned is empty")
        return
    pattern = re.compile("|".join(map(translate, banned)))
    names = sorted(name for name in library.exports.names if pattern.match(name))
    if names:
        yield f"exports {len(names)} symbols that the profile bans: {name_first(names)}"


@check(enabled=False)
def absent_library(
    package: Package, *, required: Mapping[str, tuple[str, ...]] = {}
) -> Iterator[Finding]:
    """A package does not ship a required library, or ships it more than once.

    ``required`` gives globs on paths for each format, ``ELF``, ``Mach-O`` or ``PE``; one file must
    match each.

    Why: without it the user's own copy is loaded, if there is one; with two, one process loads
    both.
    Fix: bundle it once, where the others look for it, and do not exclude it in the repair tool.
    Level: the project itself requires it.
    """
    if not any(required.values()):
        yield NotInspected(sentence="no library is required: the option required is empty")
        return
    shown = package.layout.shorten
    loaded = [item for item in package.objects if item.kind is Kind.SHARED]
    there = {item.format for item in loaded}
    if unknown := required.keys() - {"ELF", "Mach-O", "PE"}:
        yield NotInspected(
            sentence=f"the option required has no format {name_first(sorted(unknown))}"
        )
    yield from find_unread(package, found=bool(loaded), absent="no library")
    if not there & required.keys():
        raise NotApplicable(f"nothing is required of {' and '.join(sorted(there)) or 'these'}")
    for form in sorted(there & required.keys()):
        for glob in required[form]:
            paths = {shown(item.path) for item in loaded if item.format == form}
            yield from _demand_one(glob, paths)


def _demand_one(glob: str, shown: Iterable[str]) -> Iterator[Problem]:
    paths = sorted(path for path in shown if fnmatchcase(path, glob))
    if not paths:
        yield Problem(sentence=f"ships no {glob}: the user's own is loaded, if there is one")
    for path in paths[1:]:
        yield Problem(path=path, sentence=f"is a second {glob}, after {paths[0]}")
