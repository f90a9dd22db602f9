"""Whether the libraries that were put into the package belong there."""

from __future__ import annotations

import re
from collections.abc import Iterator

from binary_checks.check import check
from binary_checks.checks.unloaded_objects import find_unloaded
from binary_checks.model import ElfFile, Finding, Kind, Linkage, Package, Problem

# Parts of libc, and the libraries of a driver, which fit the one kernel they came with.
_NEVER_BUNDLED = (
    r"lib(?:c|m|pthread|dl|rt|util|resolv|anl)[-.][\w.-]*|ld(?:64|-linux.*|-musl.*)?\.so\.\d|"
    r"libc\.musl-.*|lib(?:cuda|nvidia-ml)[-.][\w.-]*so[\w.-]*"
)


@check
def forbidden_bundled_library(
    library: ElfFile, *, forbidden: str = _NEVER_BUNDLED
) -> Iterator[Finding]:
    """A library that must come from the user's system lies in the package.

    ``forbidden`` is a regular expression on sonames and file names, without the hash of a graft.

    Why: libc has to fit the loader of the running process, the driver's library the kernel.
    Fix: exclude it from bundling (``auditwheel repair --exclude``), and build on an older system.
    """
    if library.kind is not Kind.SHARED or "stubs" in library.directory.split("/"):
        return
    for name in dict.fromkeys((library.name, library.file_name)):
        if re.fullmatch(forbidden, re.sub(r"-[0-9a-f]{8}(?=[.-])", "", name)):
            yield f"is {name}, which must come from the user's system"
            return


@check(enabled=False)
def orphan_library(linkage: Linkage, package: Package) -> Iterator[Finding]:
    """A library was grafted into the package, and nothing in it needs it.

    Off by default: rtree opens such a library through ctypes.

    Why: it only makes the package larger, unless some code opens it by name.
    Fix: leave it out, or accept it with the place that opens it.
    """
    yield from find_unloaded(linkage, package)
    for path in linkage.orphans:
        yield Problem(path=path, sentence="was bundled, and nothing in the package needs it")
