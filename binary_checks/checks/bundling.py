"""Whether the bundled libraries belong in the package."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from binary_checks.declaring import Pattern, check
from binary_checks.knowledge.ended_series import find_end, read_ended_series
from binary_checks.knowledge.gaps import find_unloaded, list_unread, make_gap
from binary_checks.knowledge.library_names import is_grafted_name, strip_graft
from binary_checks.knowledge.linked_libraries import find_proof, find_version
from binary_checks.model import ElfFile, Finding, Kind, Level, Linkage, Package, PeFile, Problem
from binary_checks.wording.problem_lines import of_bundled

# Parts of libc, which match one loader, and libraries of a driver, which match one kernel.
_NEVER_BUNDLED = Pattern(
    r"lib(?:c|m|pthread|dl|rt|util|resolv|anl)[-.][\w.-]*|ld(?:64|-linux.*|-musl.*)?\.so\.\d|"
    r"libc\.musl-.*|lib(?:cuda|nvidia-ml)[-.][\w.-]*so[\w.-]*"
)
_NEVER_BUNDLED_DLLS = Pattern(r"(?:nvcuda|nvml)\.dll")


@check
def forbidden_bundled_library(
    library: ElfFile | PeFile,
    package: Package,
    *,
    forbidden: Pattern = _NEVER_BUNDLED,
    forbidden_dlls: Pattern = _NEVER_BUNDLED_DLLS,
) -> Iterator[Finding]:
    """A library that must come from the user's system is bundled.

    ``forbidden`` is a regular expression on sonames and file names, ``forbidden_dlls`` on names of
    DLLs, ignoring case; the hash that repair tools add to a name is left out. A stub for linking is
    allowed in a folder ``stubs`` under the name that the linker looks for (``libcuda.so``), as
    nothing loads it.

    Why: libc must match the loader of the running process, and the driver's library must match the
    kernel.
    Fix: exclude it from bundling (``auditwheel repair --exclude``), and build on an older system.
    Level: a second libc crashes the process, and another driver fails at its first call. It is a
    warning if a folder is judged, as that may be a system's own folder of libraries. A file that is
    judged alone is not bundled and passes. A loader that a repair tool renamed is a warning, too:
    the system's own loader is loaded before it.
    """
    partial = package.claims.partial
    if library.kind is not Kind.SHARED or _is_stub(library):
        return
    if partial and len(package.members) == 1:
        return
    of_elf = isinstance(library, ElfFile)
    pattern = re.compile(forbidden if of_elf else forbidden_dlls, 0 if of_elf else re.IGNORECASE)
    for name in dict.fromkeys((library.name, library.file_name)):
        if pattern.fullmatch(strip_graft(name)):
            sentence = f"is {name}, which must come from the user's system"
            level = Level.WARNING if partial else Level.ERROR
            # In torchvision for aarch64 four libraries need ld-linux-aarch64.5cbc5e90.so.1. All of
            # them load, and get its symbols from the process's own loader, which comes first.
            if library.file_name.startswith("ld") and is_grafted_name(library.file_name):
                sentence += "; the system's own loader is loaded before it, and works"
                level = Level.WARNING
            cause = of_bundled(library.path)
            yield Problem(
                path=library.path, sentence=sentence, facts=(name,), level=level, cause=cause
            )
            return


def _is_stub(library: ElfFile | PeFile) -> bool:
    """Whether only a linker finds the library: the loader searches for the soname, libcuda.so.1."""
    linked = library.file_name.endswith(".so") and library.file_name != library.name
    return linked and "stubs" in library.directory.split("/")


@check(level=Level.WARNING)
def library_past_end_of_life(package: Package) -> Iterator[Finding]:
    """The package contains a library that its developers no longer support.

    Strings in the code name the library and its version, also where it is linked statically. Only
    OpenSSL and FFmpeg publish when the support of each series ends. A Linux distribution may mend
    its own build for longer (OpenSSL 1.1.1k of AlmaLinux 8), but the copy in the package keeps the
    version string, so that nothing shows this.

    Why: security holes that are found later are not mended, and users cannot update the copy.
    Fix: build with a supported series of the library, and publish a new release of the package.
    Level: it works, and whether a hole concerns its users is not known.
    """
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for item in package.objects:
        for name in read_ended_series():
            if find_proof(name, item.texts):
                found[name, find_version(name, item.texts)[0]].append(item.path)
    for (name, version), paths in sorted(found.items()):
        if (end := find_end(name, version)) is not None:
            more = f" (and {len(paths) - 1} more)" if paths[1:] else ""
            sentence = (
                f"contains {name} {version}{more}, whose developers supported it until {end}: "
                "unless a Linux distribution mends this build, security holes stay open in it"
            )
            yield Problem(path=min(paths), sentence=sentence, facts=(name, version))
    yield from map(make_gap, list_unread(package))


@check(enabled=False, level=Level.WARNING)
def orphan_library(linkage: Linkage, package: Package) -> Iterator[Finding]:
    """A bundled library is needed by nothing in the package.

    Off by default: rtree opens such a library through ctypes.

    Why: it only makes the package larger, unless some code opens it by name.
    Fix: leave it out, or accept it and name the code that opens it.
    Level: it wastes space, and breaks nobody.
    """
    yield from find_unloaded(linkage, package)
    for path in linkage.orphans:
        yield Problem(path=path, sentence="is bundled, but nothing in the package needs it")
