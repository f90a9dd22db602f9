"""Whether a package brings, needs and exports what its project has decided upon."""

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
    """A package brings or needs a library that the profile bans.

    ``banned`` are globs on the library's file name, its own or its needed one, whatever the case:
    ``*openblas*.dylib`` is OpenBLAS on macOS alone.

    Why: the project has decided for another one; two of a kind in one process compute slower, or
    differently, or not at all.
    Fix: look at what the build found (CMake's cache), and tell it not to look for this one.
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

    Why: other libraries of the process take them in place of their own, of another version.
    Fix: link with a version script or ``-Wl,--exclude-libs,ALL``, which hide what was linked in.
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
    """A package does not bring a library that it must, or brings it more than once.

    ``required`` says for each format, ``ELF``, ``Mach-O`` or ``PE``, globs on paths; one file must
    match each.

    Why: without it the user's own one is loaded, if there is any; with two of them one process
    has both.
    Fix: bundle it once, where the others look for it, and let the repair tool exclude no more.
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
    yield from find_unread(package, found=bool(loaded), absent="no library at all")
    if not there & required.keys():
        raise NotApplicable(f"nothing is required of {' and '.join(sorted(there)) or 'these'}")
    for form in sorted(there & required.keys()):
        for glob in required[form]:
            paths = {shown(item.path) for item in loaded if item.format == form}
            yield from _demand_one(glob, paths)


def _demand_one(glob: str, shown: Iterable[str]) -> Iterator[Problem]:
    paths = sorted(path for path in shown if fnmatchcase(path, glob))
    if not paths:
        yield Problem(sentence=f"it brings no {glob}: the user's own is loaded, if there is one")
    for path in paths[1:]:
        yield Problem(path=path, sentence=f"is one {glob} too many beside {paths[0]}")
