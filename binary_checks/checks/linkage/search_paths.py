"""Whether the directories in an object's search path belong to the package."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import partial

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.loading import downgrade
from binary_checks.model import (
    ElfFile,
    Finding,
    Kind,
    Level,
    Linkage,
    MachOFile,
    Note,
    Package,
    Problem,
    TargetSystem,
    directories,
    expand,
    is_open_to_all,
    leaves_prefix,
    path_elements,
)
from binary_checks.wording.problem_lines import of_need
from binary_checks.wording.sentences import (
    drop_elements,
    format_elements,
    format_empty_elements,
    restore_origin,
    set_search_path,
)

_OF_MACOS = ("/usr/lib/", "/System/")
"""Directories of macOS with its own libraries: code in Swift may name /usr/lib/swift."""


@check
def absolute_search_path(
    library: ElfFile | MachOFile,
    linkage: Linkage | Package,
    package: Package,
    *,
    allowed: tuple[str, ...] = (),
) -> Iterator[Finding]:
    """A library looks for its dependencies at an absolute path.

    On macOS the system's own directories are allowed. A path that is never searched, because no
    needed name begins with ``@rpath``, is only noted.

    Why: the path exists only on the build machine, or exists on the user's system with other
    libraries in it, put there by anyone who can write to it (/tmp).
    Fix: link with ``-Wl,-rpath,'$ORIGIN/...'`` (macOS: ``@loader_path/...``), or remove the entry
    with ``patchelf`` or ``install_name_tool -delete_rpath``.
    Level: anyone who can write to a directory such as /tmp runs code as the user. A directory that
    only an administrator can fill is a warning: most users do not have it, and nothing is found
    there. It is also a warning if no import reaches the library (see missing-library).
    """
    elements = [e for e in path_elements(library) if e.startswith("/") and e not in allowed]
    if isinstance(library, MachOFile):
        elements = [e for e in elements if not f"{e}/".startswith(_OF_MACOS)]
    if not elements:
        return
    if not _is_searched(library):
        named = format_elements(library, elements)
        yield Note(sentence=f"{named}; nothing that it needs is looked for there")
        return
    cause = _find_lack(library, linkage, package)
    open_to_all = [e for e in elements if is_open_to_all(e)]
    if open_to_all:
        danger = "anyone who can write there runs code as the user"
        sentence = f"{format_elements(library, open_to_all)}: {danger}"
        yield _accuse(library, linkage, sentence, elements, cause)
    if elements := [e for e in elements if e not in open_to_all]:
        sentence = "absolute paths lead users nowhere, or to other libraries"
        yield Problem(
            path=library.path,
            sentence=f"{format_elements(library, elements)}: {sentence}",
            facts=tuple(elements),
            level=Level.WARNING,
            cause=cause,
            consequence=bool(cause),
            command=drop_elements(library, elements),
        )


def _accuse(
    library: ElfFile | MachOFile,
    linkage: Linkage | Package,
    sentence: str,
    elements: Collection[str],
    cause: str = "",
) -> Finding:
    """Return an error: foreign code may be loaded; a warning if nothing loads the library."""
    problem = Problem(
        path=library.path,
        sentence=sentence,
        facts=tuple(elements),
        cause=cause,
        consequence=bool(cause),
        command=drop_elements(library, elements),
    )
    return problem if library.kind is Kind.EXECUTABLE else downgrade(problem, linkage)


def _find_lack(library: ElfFile | MachOFile, linkage: Linkage | Package, package: Package) -> str:
    """Return the cause of the first missing library that the object needs; "" without one."""
    if isinstance(linkage, Package):
        return ""  # a system whose loader is not simulated
    edges = linkage.edges_of(library.path, library.architecture)
    lacking = (edge for edge in edges if edge.resolved is None and not edge.weak)
    known = partial(directories, package)
    return next((of_need(edge, known, linkage.layout) for edge in lacking), "")


def _is_searched(library: ElfFile | MachOFile) -> bool:
    """Whether a loader uses the search path at all: dyld does so only for ``@rpath``."""
    if isinstance(library, ElfFile):
        return True
    return any(need.name.startswith("@rpath/") for need in library.needed)


@check
def empty_search_path(
    library: ElfFile | MachOFile, target: TargetSystem, linkage: Linkage | Package
) -> Iterator[Finding]:
    """A library looks for its dependencies in the current directory.

    To glibc, an empty element of a search path, often one colon too many, means the current
    directory (musl skips it); so does any path that begins with neither ``/`` nor ``$ORIGIN``
    (macOS: ``@loader_path``). On macOS a path that is never searched is only noted.

    Why: anyone who can put a file in the user's current directory runs code as that user.
    Fix: remove the element; write ``$ORIGIN`` for the library's own directory (``$$ORIGIN`` in a
    makefile, ``'$ORIGIN'`` in a shell: ``RIGIN/../lib`` is what make leaves of ``$ORIGIN/../lib``).
    Level: anyone who can put a file into the current directory runs code as the user. It is a
    warning if no import reaches the library (see missing-library).
    """
    elements = path_elements(library)
    danger = "the current directory: anyone who can write there runs code as the user"
    if "" in elements and target.libc == "glibc":
        sentence = f"{format_empty_elements(library)}, which means {danger}"
        yield _accuse(library, linkage, sentence, [""])
    relative = [
        e for e in elements if e and not e.startswith(("/", "@")) and expand(e, library) is None
    ]
    if relative and not _is_searched(library):
        named = format_elements(library, relative)
        yield Note(sentence=f"{named}; nothing that it needs is looked for there")
    elif relative:
        sentence = f"{format_elements(library, relative)}, relative to {danger}"
        restored = {e: meant for e in relative if (meant := restore_origin(e))}
        finding = _accuse(library, linkage, sentence, relative)
        if restored and isinstance(finding, Problem):
            meant = "; it was to begin with $ORIGIN, of which make or a shell took a part"
            command = set_search_path(library, restored)
            finding = replace(finding, sentence=finding.sentence + meant, command=command)
        yield finding


@check(level=Level.WARNING)
def search_path_leaves_prefix(library: ElfFile | MachOFile, package: Package) -> Iterator[Finding]:
    """A search path leaves the environment that the package is installed in.

    Why: the contents of that directory depend on where the user keeps environments.
    Fix: count the ``..`` again: from site-packages the environment is three levels up.
    Level: the package works if its libraries are found first, and usually the directory does not
    exist.
    """
    if package.claims.partial:
        raise NotApplicable("nothing says where in an environment the object will lie")
    places = {element: expand(element, library) for element in path_elements(library)}
    elements = [e for e, place in places.items() if place is not None and leaves_prefix(place)]
    if elements:
        meaning = "that is outside the environment, and differs from user to user"
        yield Problem(
            path=library.path,
            sentence=f"{format_elements(library, elements)}: {meaning}",
            facts=tuple(elements),
            command=drop_elements(library, elements),
        )


@check(enabled=False, level=Level.WARNING)
def dead_search_directory(package: Package) -> Iterator[Finding]:
    """A search path names a directory that the package does not have.

    Why: harmless while nothing is looked for there, but a sign that the layout has changed.
    Fix: remove the element.
    Level: nothing is looked for there.
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
            sentence = f"{format_elements(library, dead)}: not in the package"
            yield Problem(path=library.path, sentence=sentence, facts=tuple(dead))
