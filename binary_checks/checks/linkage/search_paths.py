"""Whether the directories in an object's search path belong to the package."""

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

    On macOS the system's own directories are allowed, and a path that is never searched, because
    no needed name begins with ``@rpath``, is only noted.

    Why: the path exists only on the build machine, or exists on the user's system with other
    libraries in it, put there by anyone who can write to it (/tmp).
    Fix: link with ``-Wl,-rpath,'$ORIGIN/...'`` (macOS: ``@loader_path/...``), or remove the entry
    with ``patchelf`` or ``install_name_tool -delete_rpath``.
    """
    elements = [e for e in path_elements(library) if e.startswith("/") and e not in allowed]
    if isinstance(library, MachOFile):
        elements = [e for e in elements if not f"{e}/".startswith(_OF_MACOS)]
    if not elements:
        return
    named = spell_elements(library, elements)
    if isinstance(library, MachOFile) and not any(map(_is_searched, library.needed)):
        yield Note(sentence=f"{named}; nothing that it needs is looked for there")
    else:
        yield f"{named}: absolute paths lead users nowhere, or to other libraries"


def _is_searched(need: Dependency) -> bool:
    return need.name.startswith("@rpath/")


@check
def empty_search_path(library: ElfFile | MachOFile, target: TargetSystem) -> Iterator[Finding]:
    """A library looks for its dependencies in the current directory.

    To glibc, an empty element of a search path, often one colon too many, means the current
    directory (musl skips it); so does any path that begins with neither ``/`` nor ``$ORIGIN``
    (macOS: ``@loader_path``).

    Why: anyone who can put a file in the user's current directory runs code as that user.
    Fix: remove the element; write ``$ORIGIN`` for the library's own directory.
    """
    elements = path_elements(library)
    danger = "the current directory: anyone who can write there runs code as the user"
    if "" in elements and target.libc == "glibc":
        yield f"{spell_empty_elements(library)}, which means {danger}"
    relative = [e for e in elements if e and e[0] not in "/@" and expand(e, library) is None]
    if relative:
        yield f"{spell_elements(library, relative)}, relative to {danger}"


@check
def search_path_leaves_prefix(library: ElfFile | MachOFile) -> Iterator[Finding]:
    """A search path leaves the environment that the package is installed in.

    Why: the contents of that directory depend on where the user keeps environments.
    Fix: count the ``..`` again: from site-packages the environment is three levels up.
    """
    places = {element: expand(element, library) for element in path_elements(library)}
    elements = [e for e, place in places.items() if place is not None and leaves_prefix(place)]
    if elements:
        meaning = "that is outside the environment, and differs from user to user"
        yield f"{spell_elements(library, elements)}: {meaning}"


@check(enabled=False)
def dead_search_directory(package: Package) -> Iterator[Finding]:
    """A search path names a directory that the package does not have.

    Why: harmless while nothing is looked for there, but a sign that the layout has changed.
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
            sentence = f"{spell_elements(library, dead)}: not in the package"
            yield Problem(path=library.path, sentence=sentence)


@check(enabled=False)
def rpath_instead_of_runpath(library: ElfFile) -> Iterator[Finding]:
    """A library has a DT_RPATH, where the profile wants DT_RUNPATH.

    Why: RPATH takes precedence over LD_LIBRARY_PATH, so users cannot replace a library, and it
    also applies to everything that the library loads.
    Fix: link with ``-Wl,--enable-new-dtags``; ``patchelf --set-rpath`` without ``--force-rpath``.
    """
    if library.rpath and not library.runpath:
        yield f"has RPATH {shorten(':'.join(library.rpath))} and no RUNPATH"


@check(enabled=False)
def runpath_instead_of_rpath(library: ElfFile) -> Iterator[Finding]:
    """A library has a DT_RUNPATH, where the profile wants DT_RPATH.

    Why: LD_LIBRARY_PATH takes precedence over RUNPATH, so a user's CUDA can replace the package's;
    and RUNPATH is not inherited.
    Fix: link with ``-Wl,--disable-new-dtags``; ``patchelf --force-rpath --set-rpath``.
    """
    if library.runpath:
        yield f"has RUNPATH {shorten(':'.join(library.runpath))}, which takes RPATH's place"
