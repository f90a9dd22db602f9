"""Whether users have the loaders that programs name."""

from __future__ import annotations

import re
from collections.abc import Iterator

from binary_checks.declaring import check
from binary_checks.knowledge.loading import downgrade
from binary_checks.model import (
    ElfFile,
    Finding,
    Kind,
    Linkage,
    Package,
    Problem,
    TargetSystem,
    format_of_name,
    shorten,
)

# The paths that every compiler for the system writes (glibc, "ABI list" in its wiki); musl has one
# for each processor ("Guidelines for Distributions" in its wiki).
_OF_GLIBC = {
    "x86_64": "/lib64/ld-linux-x86-64.so.2",
    "i686": "/lib/ld-linux.so.2",
    "aarch64": "/lib/ld-linux-aarch64.so.1",
    "armv7l": "/lib/ld-linux-armhf.so.3",
    "ppc64le": "/lib64/ld64.so.2",
    "ppc64": "/lib64/ld64.so.1",
    "s390x": "/lib/ld64.so.1",
    "riscv64": "/lib/ld-linux-riscv64-lp64d.so.1",
    "loongarch64": "/lib64/ld-linux-loongarch-lp64d.so.1",
}
_OF_MUSL = re.compile(r"/lib/ld-musl-[a-z0-9_]+\.so\.1")


@check
def missing_program_loader(
    library: ElfFile, package: Package, target: TargetSystem, linkage: Linkage | Package
) -> Iterator[Finding]:
    """A program is to be started by a loader that users do not have.

    The path of the loader is in the program (PT_INTERP). Compilers of Nix, Guix, Homebrew and
    conda write one of their own; a program for musl has musl's. A library that can also be run is
    exempt.

    Why: the program does not start: "No such file or directory", although the file is there.
    Fix: build in a manylinux or musllinux image, or set the system's loader with
    ``patchelf --set-interpreter``.
    Level: users cannot start the program. It is a warning if no import reaches it (see
    missing-library).
    """
    stated = library.interpreter
    if library.kind is not Kind.EXECUTABLE or not stated or package.claims.partial:
        return
    if format_of_name(library.path) is not None:
        return
    expected = _OF_GLIBC.get(library.architecture, "") if target.libc == "glibc" else ""
    if target.libc == "musl" and _OF_MUSL.fullmatch(stated):
        return
    if stated == expected or not (expected or target.libc == "musl"):
        return
    loader = "musl's loader" if _OF_MUSL.fullmatch(stated) else "the loader"
    platform = target.name.partition(",")[0]
    sentence = f"is to be started by {loader} {shorten(stated)}, which {platform} does not have"
    unpacked = package.layout.inside(library.path) is not None  # else it has another path there
    problem = Problem(
        path=library.path,
        sentence=f"{sentence}: the program does not start",
        facts=(stated,),
        command=f"patchelf --set-interpreter {expected} {{path}}" if expected and unpacked else "",
    )
    yield downgrade(problem, linkage)
