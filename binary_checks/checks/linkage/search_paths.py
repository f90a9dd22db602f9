"""Whether the directories that an object has its loader look into are the package's own."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.declaring import check
from binary_checks.model import (
    Dependency,
    ElfFile,
    Finding,
    MachOFile,
    Note,
    Package,
    Problem,
    TargetSystem,
)
from binary_checks.model.search_path import (
    directories,
    expand,
    leaves_prefix,
    path_elements,
    shorten,
)
from binary_checks.wording.search_texts import spell_elements, spell_empty_elements

_OF_MACOS = ("/usr/lib/", "/System/")
"""Where macOS has its own libraries: what is written in Swift names /usr/lib/swift, and may."""


@check
def absolute_search_path(
    library: ElfFile | MachOFile, *, allowed: tuple[str, ...] = ()
) -> Iterator[Finding]:
    """A library looks for its dependencies at an absolute path.

    On macOS the system's own directories may be named, and a path that nothing is looked for in,
    as no needed name begins with ``@rpath``, is only worth a note.

    Why: the path exists on the build machine and nowhere else, or exists at the user's with other
    libraries in it, put there by whoever may write there (/tmp).
    Fix: link with ``-Wl,-rpath,'$ORIGIN/...'`` (macOS: ``@loader_path/...``), or take the entry out
    with ``patchelf`` or ``install_name_tool -delete_rpath``.
    """
    elements = [e for e in path_elements(library) if e.startswith("/") and e not in allowed]
    if isinstance(library, MachOFile):
        elements = [e for e in elements if not f"{e}/".startswith(_OF_MACOS)]
    if not elements:
        return
    told = spell_elements(library, elements)
    if isinstance(library, MachOFile) and not any(map(_is_searched, library.needed)):
        yield Note(sentence=f"{told}; nothing that it needs is looked for there")
    else:
        yield f"{told}: absolute paths lead users nowhere, or to other libraries"


def _is_searched(need: Dependency) -> bool:
    return need.name.startswith("@rpath/")


@check
def empty_search_path(library: ElfFile | MachOFile, target: TargetSystem) -> Iterator[Finding]:
    """A library looks for its dependencies in the current directory.

    An empty element of a search path, often one colon too many, means the current directory to
    glibc (musl passes over it); so does any path that begins with neither ``/`` nor ``$ORIGIN``
    (macOS: ``@loader_path``).

    Why: whoever can put a file where the user happens to stand, runs code in the user's process.
    Fix: remove the element; write ``$ORIGIN`` for the library's own directory.
    """
    elements = path_elements(library)
    danger = "the current directory: whoever can write there runs code in the user's process"
    if "" in elements and target.libc == "glibc":
        yield f"{spell_empty_elements(library)}, which means {danger}"
    relative = [e for e in elements if e and e[0] not in "/@" and expand(e, library) is None]
    if relative:
        yield f"{spell_elements(library, relative)}, relative to {danger}"


@check
def search_path_leaves_prefix(library: ElfFile | MachOFile) -> Iterator[Finding]:
    """A search path climbs out of the environment that the package is installed in.

    Why: what lies there depends on where the user keeps environments.
    Fix: count the ``..`` again: from site-packages the environment is three levels up.
    """
    places = {element: expand(element, library) for element in path_elements(library)}
    elements = [e for e, place in places.items() if place is not None and leaves_prefix(place)]
    if elements:
        meaning = "that is outside of the environment, where every user has something else"
        yield f"{spell_elements(library, elements)}: {meaning}"


@check(enabled=False)
def dead_search_directory(package: Package) -> Iterator[Finding]:
    """A search path names a directory of the package that is not there.

    Why: harmless as long as nothing is looked for there; a hint that the layout has changed.
    Fix: remove the element.
    """
    known = directories(package)
    for library in package.objects:
        if not isinstance(library, (ElfFile, MachOFile)):
            continue
        places = {element: expand(element, library) for element in path_elements(library)}
        dead = [
            element
            for element, place in places.items()
            if place is not None and not leaves_prefix(place) and place not in known
        ]
        if dead:
            told = f"{spell_elements(library, dead)}: not in the package"
            yield Problem(path=library.path, sentence=told)


@check(enabled=False)
def rpath_instead_of_runpath(library: ElfFile) -> Iterator[Finding]:
    """A library has a DT_RPATH, where the profile wants DT_RUNPATH.

    Why: RPATH goes before LD_LIBRARY_PATH, so that users cannot replace a library, and is inherited
    by all that the library loads.
    Fix: link with ``-Wl,--enable-new-dtags``; ``patchelf --set-rpath`` without ``--force-rpath``.
    """
    if library.rpath and not library.runpath:
        yield f"has RPATH {shorten(':'.join(library.rpath))} and no RUNPATH"


@check(enabled=False)
def runpath_instead_of_rpath(library: ElfFile) -> Iterator[Finding]:
    """A library has a DT_RUNPATH, where the profile wants DT_RPATH.

    Why: LD_LIBRARY_PATH goes before RUNPATH, so that a user's CUDA can take the place of the
    package's; and RUNPATH is not inherited.
    Fix: link with ``-Wl,--disable-new-dtags``; ``patchelf --force-rpath --set-rpath``.
    """
    if library.runpath:
        yield f"has RUNPATH {shorten(':'.join(library.runpath))}, which takes RPATH's place"
