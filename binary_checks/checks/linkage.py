"""Whether the loader finds, at the user's, the libraries that objects need."""

from __future__ import annotations

import re
from collections.abc import Iterator

from binary_checks.check import check
from binary_checks.checks.search_texts import (
    is_executable,
    owners,
    spell_directories,
    spell_elements,
    spell_empty_elements,
    spell_lack,
    spell_search,
    spell_stray,
)
from binary_checks.checks.unloaded_objects import find_unloaded
from binary_checks.model import (
    Edge,
    ElfFile,
    Finding,
    Linkage,
    NotLooked,
    Package,
    Problem,
    Rule,
    TargetSystem,
)
from binary_checks.model.search_path import (
    directories,
    expand,
    leaves_prefix,
    path_elements,
    shorten,
)


@check
def missing_library(linkage: Linkage, package: Package) -> Iterator[Finding]:
    """A needed library is neither in the package nor in what its tag promises.

    Where the search leads into other distributions' folders, those required must be given. An
    executable lacks what no search path leads to, as nothing can have been loaded before it.

    Why: the loader refuses the object, and the import fails with "cannot open shared object file".
    Fix: bundle it (``auditwheel repair``), link it statically, or require the distribution that
    brings it and give the object a search path that leads there; name what users always have in
    the profile's ``system_libraries``.
    """
    yield from find_unloaded(linkage, package)
    for other in linkage.refused:
        why = "it was left out; give one that fits with --binary-with"
        yield NotLooked(sentence=f"was given {other}: {why}")
    found = owners(package)
    for edge in linkage.edges:
        if edge.resolved is not None or "/" in edge.needed:
            continue
        searched = spell_search(edge, found)
        if not edge.elsewhere:
            yield spell_lack(edge, linkage, searched)
        elif is_executable(edge, found):
            yield spell_stray(edge, searched)


@check
def load_order_dependent(linkage: Linkage, package: Package) -> Iterator[Finding]:
    """A needed library is found only when something else was loaded before.

    Why: another order of imports, or the object opened by itself, and it is not found.
    Fix: give the object a search path to the library (``-Wl,-rpath,'$ORIGIN/...'``), or, where the
    package's own code always loads the library first, accept it with that reason.
    """
    yield from find_unloaded(linkage, package)
    found = owners(package)
    for edge in linkage.edges:
        searched = spell_search(edge, found)
        if edge.resolved is None and edge.elsewhere and not is_executable(edge, found):
            sentence = (
                f"needs {edge.needed} and does not find it by itself ({searched}): "
                f"it loads only after {edge.elsewhere[0]} was loaded"
            )
        elif _is_by_order(edge):
            sentence = (
                f"needs {edge.needed} and does not find it by itself ({searched}): it loads only "
                f"because {edge.root}, when it is opened, loads {edge.resolved} before"
            )
        else:
            continue
        yield Problem(path=edge.path, sentence=sentence)


def _is_by_order(edge: Edge) -> bool:
    return bool(edge.resolved) and edge.rule is Rule.LOADED and edge.shadowed is None


@check
def absolute_search_path(library: ElfFile, *, allowed: tuple[str, ...] = ()) -> Iterator[Finding]:
    """A library looks for its dependencies at an absolute path.

    Why: the path exists on the build machine and nowhere else, or exists at the user's with other
    libraries in it, put there by whoever may write there (/tmp).
    Fix: link with ``-Wl,-rpath,'$ORIGIN/...'``, or take the entry out with ``patchelf``.
    """
    elements = [e for e in path_elements(library) if e.startswith("/") and e not in allowed]
    if elements:
        meaning = "absolute paths lead users nowhere, or to other libraries"
        yield f"{spell_elements(library, elements)}: {meaning}"


@check
def empty_search_path(library: ElfFile, target: TargetSystem) -> Iterator[Finding]:
    """A library looks for its dependencies in the current directory.

    An empty element of a search path, often one colon too many, means the current directory to
    glibc (musl passes over it); so does any path that begins with neither ``/`` nor ``$ORIGIN``.

    Why: whoever can put a file where the user happens to stand, runs code in the user's process.
    Fix: remove the element; write ``$ORIGIN`` for the library's own directory.
    """
    elements = path_elements(library)
    danger = "the current directory: whoever can write there runs code in the user's process"
    if "" in elements and target.libc == "glibc":
        yield f"{spell_empty_elements(library)}, which means {danger}"
    relative = [e for e in elements if e and not e.startswith("/") and expand(e, library) is None]
    if relative:
        yield f"{spell_elements(library, relative)}, relative to {danger}"


@check
def search_path_leaves_prefix(library: ElfFile) -> Iterator[Finding]:
    """A search path climbs out of the environment that the package is installed in.

    Why: what lies there depends on where the user keeps environments.
    Fix: count the ``..`` again: from site-packages the environment is three levels up.
    """
    places = {element: expand(element, library) for element in path_elements(library)}
    elements = [e for e, place in places.items() if place is not None and leaves_prefix(place)]
    if elements:
        meaning = "that is outside of the environment, where every user has something else"
        yield f"{spell_elements(library, elements)}: {meaning}"


@check
def missing_search_directory(linkage: Linkage, package: Package) -> Iterator[Finding]:
    """A search path names a directory that is not there, and the library is found by luck only.

    Why: the path was meant to lead to a library that now only load order provides.
    Fix: correct the path; it is relative to where the object lies once installed.
    """
    yield from find_unloaded(linkage, package)
    known = directories(package)
    for edge in linkage.edges:
        wrong = [directory for directory in edge.searched if directory not in known]
        if wrong and (_is_by_order(edge) or (edge.resolved is None and edge.elsewhere)):
            sentence = (
                f"looks for {edge.needed} in {spell_directories(wrong)}, which the package does "
                f"not have; the library is {edge.resolved or edge.elsewhere[0]}"
            )
            yield Problem(path=edge.path, sentence=sentence)


@check(enabled=False)
def dead_search_directory(package: Package) -> Iterator[Finding]:
    """A search path names a directory of the package that is not there.

    Why: harmless as long as nothing is looked for there; a hint that the layout has changed.
    Fix: remove the element.
    """
    known = directories(package)
    for library in package.objects_of(ElfFile):
        places = {element: expand(element, library) for element in path_elements(library)}
        dead = [
            element
            for element, place in places.items()
            if place is not None and not leaves_prefix(place) and place not in known
        ]
        if dead:
            told = f"{spell_elements(library, dead)}: not in the package"
            yield Problem(path=library.path, sentence=told)


@check
def needed_name_with_slash(library: ElfFile) -> Iterator[Finding]:
    """A needed library is named by a path.

    Why: the loader opens the path as it stands, from the current directory, and searches nowhere.
    Fix: give the library a soname (``-Wl,-soname,libx.so.1``) before linking to it, or link with
    ``-L`` and ``-l`` rather than with the file.
    """
    for need in library.needed:
        if "/" in need.name and expand(need.name, library) is None:
            opened = "the loader opens it from whatever directory is the current one"
            yield f"needs {shorten(need.name)}, a path: {opened}"


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


@check
def libpython_linked(linkage: Linkage, package: Package) -> Iterator[Finding]:
    """An object needs libpython from the interpreter.

    Why: PEP 513 forbids it: many interpreters are built without a shared libpython, and the object
    does not load there.
    Fix: do not link it; ``python3-config`` without ``--embed``, CMake's ``Development.Module``.
    """
    yield from find_unloaded(linkage, package)
    for edge in linkage.edges:
        if edge.rule is Rule.PYTHON:
            sentence = (
                f"needs {edge.needed}: a Python that was built without it cannot load the file"
            )
            yield Problem(path=edge.path, sentence=sentence)


@check
def foreign_libc(library: ElfFile, target: TargetSystem) -> Iterator[Finding]:
    """An object of a musllinux wheel needs glibc.

    Why: musl takes the name for its own, and what glibc alone has is missing at run time.
    Fix: build in a musllinux image.
    """
    if target.libc != "musl" and not any(t.startswith("musllinux") for t in target.unjudged):
        return
    for need in library.needed:
        if re.fullmatch(r"lib(?:c|m|pthread|dl|rt|util)\.so\.\d|ld-linux.*", need.name):
            yield f"needs {need.name}, which is glibc's: a musllinux wheel must do with musl's libc"
