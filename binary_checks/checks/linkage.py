"""Whether the loader finds, at the user's, the libraries that objects need."""

from __future__ import annotations

import re
from collections.abc import Iterator

from binary_checks.check import check
from binary_checks.model import (
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
    path_tag,
    shorten,
)

_STEM = re.compile(r"lib([a-z]+)", re.ASCII)


@check
def missing_library(linkage: Linkage) -> Iterator[Finding]:
    """A needed library is neither in the package nor in what its tag promises.

    Where the search leads into other distributions' folders, those required must be given.

    Why: the loader refuses the object, and the import fails with "cannot open shared object file".
    Fix: bundle it (``auditwheel repair``), link it statically, or require the distribution that
    brings it and give the object a search path that leads there; name what users always have in
    the profile's ``system_libraries``.
    """
    platform = linkage.target.partition(",")[0]
    for edge in linkage.edges:
        if edge.resolved is not None or edge.elsewhere or "/" in edge.needed:
            continue
        if edge.leaves_package and linkage.requirements:
            yield NotLooked(
                path=edge.path,
                sentence=f"needs {edge.needed} from a required wheel"
                f"{_guess(edge.needed, linkage.requirements)}; give it with --binary-with",
            )
        else:
            yield Problem(
                path=edge.path,
                sentence=f"needs {edge.needed}, which neither the package nor {platform} provides"
                f" ({_spell(edge.searched)})",
            )


def _guess(needed: str, requirements: tuple[str, ...]) -> str:
    """The requirement whose name has the library's in it, if there is just one."""
    stem = _STEM.match(needed.lower())
    fitting = [name for name in requirements if stem and stem[1] in name]
    named = fitting if len(fitting) == 1 else requirements if len(requirements) == 1 else []
    return f" ({named[0]}?)" if named else ""


def _spell(searched: tuple[str, ...]) -> str:
    if not searched:
        return "it has no search path into the package"
    return "searched " + ", ".join(f"{directory or '.'}/" for directory in searched)


@check
def load_order_dependent(linkage: Linkage) -> Iterator[Finding]:
    """A needed library is found only when something else was loaded before.

    Why: another order of imports, or the object opened by itself, and it is not found.
    Fix: give the object a search path to the library (``-Wl,-rpath,'$ORIGIN/...'``), or, where the
    package's own code always loads the library first, accept it with that reason.
    """
    for edge in linkage.edges:
        if edge.resolved is None and edge.elsewhere:
            sentence = (
                f"needs {edge.needed}, which no search path of it finds ({_spell(edge.searched)}): "
                f"{edge.elsewhere[0]} must have been loaded before"
            )
        elif edge.resolved and edge.rule is Rule.LOADED and edge.shadowed is None:
            sentence = (
                f"needs {edge.needed}, found only because {edge.resolved} is loaded before it "
                f"when {edge.root} is opened ({_spell(edge.searched)})"
            )
        else:
            continue
        yield Problem(path=edge.path, sentence=sentence)


@check
def absolute_search_path(library: ElfFile, *, allowed: tuple[str, ...] = ()) -> Iterator[Finding]:
    """A library looks for its dependencies at an absolute path.

    Why: the path exists on the build machine and nowhere else, or exists at the user's with other
    libraries in it, put there by whoever may write there (/tmp).
    Fix: link with ``-Wl,-rpath,'$ORIGIN/...'``, or take the entry out with ``patchelf``.
    """
    for element in dict.fromkeys(path_elements(library)):
        if element.startswith("/") and element not in allowed:
            yield _looks(library, element, "an absolute path")


def _looks(library: ElfFile, element: str, where: str) -> str:
    return f"looks for libraries in {shorten(element)}, {where} ({path_tag(library)})"


@check
def empty_search_path(library: ElfFile, target: TargetSystem) -> Iterator[Finding]:
    """A library looks for its dependencies in the current directory.

    An empty element of a search path, often one colon too many, means the current directory to
    glibc (musl passes over it); so does any path that begins with neither ``/`` nor ``$ORIGIN``.

    Why: whoever can put a file where the user happens to stand, runs code in the user's process.
    Fix: remove the element; write ``$ORIGIN`` for the library's own directory.
    """
    for element in dict.fromkeys(path_elements(library)):
        if element and not element.startswith("/") and expand(element, library) is None:
            yield _looks(library, element, "relative to the current directory")
        elif not element and target.libc == "glibc":
            path = shorten(":".join(path_elements(library)))
            named = f"{path_tag(library)} {path} has an empty element"
            yield f"looks for libraries in the current directory: {named}"


@check
def search_path_leaves_prefix(library: ElfFile) -> Iterator[Finding]:
    """A search path climbs out of the environment that the package is installed in.

    Why: what lies there depends on where the user keeps environments.
    Fix: count the ``..`` again: from site-packages the environment is three levels up.
    """
    for element in dict.fromkeys(path_elements(library)):
        directory = expand(element, library)
        if directory is not None and leaves_prefix(directory):
            yield _looks(library, element, "outside of the environment")


@check
def missing_search_directory(linkage: Linkage, package: Package) -> Iterator[Finding]:
    """A search path names a directory that is not there, and the library is found by luck only.

    Why: the path was meant to lead to a library that now only load order provides.
    Fix: correct the path; it is relative to where the object lies once installed.
    """
    known = directories(package)
    for edge in linkage.edges:
        by_order = edge.rule is Rule.LOADED and edge.shadowed is None
        if by_order or (edge.resolved is None and edge.elsewhere):
            for directory in edge.searched:
                if directory not in known:
                    yield Problem(
                        path=edge.path,
                        sentence=f"looks for {edge.needed} in {directory or '.'}/, which the "
                        f"package does not have; it is in {edge.resolved or edge.elsewhere[0]}",
                    )


@check(enabled=False)
def dead_search_directory(package: Package) -> Iterator[Finding]:
    """A search path names a directory of the package that is not there.

    Why: harmless as long as nothing is looked for there; a hint that the layout has changed.
    Fix: remove the element.
    """
    known = directories(package)
    for library in package.objects_of(ElfFile):
        for element in dict.fromkeys(path_elements(library)):
            directory = expand(element, library)
            if directory is not None and not leaves_prefix(directory) and directory not in known:
                yield Problem(
                    path=library.path,
                    sentence=f"looks for libraries in {shorten(element)}, which is not in the "
                    f"package ({path_tag(library)})",
                )


@check
def needed_name_with_slash(library: ElfFile) -> Iterator[Finding]:
    """A needed library is named by a path.

    Why: the loader opens the path as it stands, from the current directory, and searches nowhere.
    Fix: give the library a soname (``-Wl,-soname,libx.so.1``) before linking to it, or link with
    ``-L`` and ``-l`` rather than with the file.
    """
    for need in library.needed:
        if "/" in need.name and expand(need.name, library) is None:
            yield f"needs {shorten(need.name)}, a path, which is opened from the current directory"


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
def libpython_linked(linkage: Linkage) -> Iterator[Finding]:
    """An object needs libpython from the interpreter.

    Why: PEP 513 forbids it: many interpreters are built without a shared libpython, and the object
    does not load there.
    Fix: do not link it; ``python3-config`` without ``--embed``, CMake's ``Development.Module``.
    """
    for edge in linkage.edges:
        if edge.rule is Rule.PYTHON:
            yield Problem(
                path=edge.path,
                sentence=f"needs {edge.needed}, which interpreters without a shared library lack",
            )


@check
def foreign_libc(library: ElfFile, target: TargetSystem) -> Iterator[Finding]:
    """An object of a musllinux wheel needs glibc.

    Why: musl takes the name for its own, and what glibc alone has is missing at run time.
    Fix: build in a musllinux image.
    """
    if target.libc != "musl":
        return
    for need in library.needed:
        if re.fullmatch(r"lib(?:c|m|pthread|dl|rt|util)\.so\.\d|ld-linux.*", need.name):
            yield f"needs {need.name}, which is glibc's, under {target.name.partition(',')[0]}"
