"""Which objects a claimed system takes: of which format, for which architecture."""

from __future__ import annotations

import re
from collections.abc import Collection

from binary_checks.model import ElfFile, Format, Kind, ObjectFile, PeFile
from binary_checks.model.claims import SystemClaim
from binary_checks.model.extensions import is_extension
from binary_checks.model.objects import object_kinds

_OBJECTS = frozenset(
    {"x86_64", "aarch64", "i686", "armv7l", "ppc64le", "ppc64", "ppc"}
    | {"s390x", "riscv64", "loongarch64"}
)
"""The architectures that readers tell objects apart by."""
_FORMATS = {"linux": Format.ELF, "macos": Format.MACHO, "windows": Format.PE}
_WORDS = {
    "i686": r"x86|i386|i686|ia32|win32|32",
    "x86_64": r"x64|amd64|x86_64|win64|64",
    "aarch64": r"arm64|aarch64",
}


def architectures_of(claim: SystemClaim) -> frozenset[str]:
    """The architectures of objects that a claimed system takes; empty where it is unknown."""
    # The headers of ELF do not tell ARM's version 6 from version 7.
    architectures = {"armv7l" if name == "armv6l" else name for name in claim.architectures}
    if claim.system == "windows" and "aarch64" in architectures:
        return frozenset({"aarch64", "arm64x"})  # Microsoft's own msvcp140.dll is ARM64X
    return _OBJECTS & architectures


def formats_of(claim: SystemClaim) -> frozenset[Format]:
    """The format that the loader of a claimed system takes; every one where it is not known."""
    known = _FORMATS.get(claim.system)
    every = (kind.format for kind in object_kinds().values())
    return frozenset(every if known is None else {known})


def may_be_foreign(item: ObjectFile, claimed: Collection[str]) -> bool:
    """Whether a claimed system takes it although its architecture is none of the claimed ones.

    .NET code alone has none of its own, and on Windows a program runs in a process of its own. A
    library for Windows or macOS that is called by its architecture, and no extension module, is
    meant for such a process: debugpy's win_amd64 wheel attaches to 32-bit processes with
    ``attach_x86.dll``, viztracer's for arm64 to Intel's with ``attach_x86_64.dylib``. How ARM
    passes numbers is nothing to a program that loads no library (ziglang's ``zig``).
    """
    if isinstance(item, ElfFile):
        is_alone = not item.interpreter and not item.needed and item.kind is Kind.EXECUTABLE
        return is_alone and item.architecture == "armel" and "armv7l" in claimed
    if isinstance(item, PeFile) and (item.managed or item.kind is Kind.EXECUTABLE):
        return True
    words = _WORDS.get(item.architecture)
    if words is None or is_extension(item):
        return False
    name = item.file_name.lower()
    unmistakable = {"i686": "32bit", "x86_64": "64bit", "aarch64": "arm64"}[item.architecture]
    return unmistakable in name or bool(re.search(rf"(?<![^\W_])(?:{words})(?![^\W_])", name))
