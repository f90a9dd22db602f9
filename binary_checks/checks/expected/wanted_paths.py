"""Whether objects have exactly the search paths that the profile expects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from binary_checks.declaring import check
from binary_checks.knowledge.unloaded_objects import find_unread
from binary_checks.model import ElfFile, Finding, Format, MachOFile, NotInspected, Package, Problem


@check(enabled=False)
def unexpected_search_path(
    package: Package, *, expected: Mapping[str, tuple[str, ...]] = {}
) -> Iterator[Finding]:
    """An object's search path is not the one that the profile expects, entry by entry.

    ``expected`` lists the allowed search paths for a glob on paths, each as one string with its
    kind: ``RUNPATH $ORIGIN:$ORIGIN/lib``, ``RPATH $ORIGIN``, for Mach-O ``LC_RPATH @loader_path``,
    and "" for none; ``*`` matches anything. The first glob that matches the path decides; an object
    that none matches is not judged.

    Why: order and kind decide whose library is loaded: RUNPATH is searched after the user's
    LD_LIBRARY_PATH, RPATH before it, and a directory listed too early hides the right one.
    Fix: set the whole list in one place of the build (``patchelf --set-rpath``, with
    ``--force-rpath`` for RPATH; CMake's ``INSTALL_RPATH``).
    Level: the project itself says what it must be.
    """
    if not expected:
        yield NotInspected(sentence="no expected search path is set (the option expected)")
        return
    searching = [item for item in package.objects if isinstance(item, (ElfFile, MachOFile))]
    shown = package.layout.shorten
    judged = [(item, found) for item in searching if (found := _find(shown(item.path), expected))]
    yield from find_unread(
        package,
        found=bool(searching),
        absent="no object in a format that has search paths",
        formats=(Format.ELF, Format.MACHO),
        concerns=lambda path: _find(shown(path), expected),
    )
    if searching and not judged:
        yield NotInspected(sentence=f"no object matches {' or '.join(expected)}")
    for item, wanted in judged:
        actual = spell_search_path(item)
        if not any(fnmatchcase(actual, each) for each in wanted):
            has = f"has {actual}" if actual else "has no search path"
            yield Problem(path=item.path, sentence=f"{has}, where {_spell(wanted)} is expected")


def _find(path: str, expected: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """What the first glob that matches expects; () where none does."""
    return next((wanted for glob, wanted in expected.items() if fnmatchcase(path, glob)), ())


def _spell(wanted: Iterable[str]) -> str:
    return " or ".join(each or "no search path" for each in wanted)


def spell_search_path(library: ElfFile | MachOFile) -> str:
    """Spell kind and entries as the profile does; DT_RPATH beside DT_RUNPATH is never read."""
    if isinstance(library, MachOFile):
        return f"LC_RPATH {':'.join(library.rpaths)}" if library.rpaths else ""
    if library.runpath:
        return f"RUNPATH {':'.join(library.runpath)}"
    return f"RPATH {':'.join(library.rpath)}" if library.rpath else ""
