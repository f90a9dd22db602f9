"""Reads the architectures out of platform tags, and who may be of another in a wheel."""

from __future__ import annotations

import re

from binary_checks.model import Format, Kind, ObjectFile, PeFile
from binary_checks.model.extensions import is_extension

_PROCESSORS = {
    **{name: frozenset({name}) for name in ("x86_64", "aarch64", "i686", "armv7l", "ppc64le")},
    **{name: frozenset({name}) for name in ("ppc64", "s390x", "riscv64", "loongarch64")},
    "armv6l": frozenset({"armv7l"}),  # ELF headers do not tell the two apart
    "i386": frozenset({"i686"}),
    "amd64": frozenset({"x86_64"}),
    "arm64": frozenset({"aarch64"}),
    "arm64_v8a": frozenset({"aarch64"}),
    "armeabi_v7a": frozenset({"armv7l"}),
    "win32": frozenset({"i686"}),
    "win_arm64": frozenset({"aarch64", "arm64x"}),  # Microsoft's own msvcp140.dll is ARM64X
    "universal2": frozenset({"x86_64", "aarch64"}),
    "intel": frozenset({"x86_64", "i686"}),
    "universal": frozenset({"x86_64", "i686", "ppc", "ppc64"}),
    "fat": frozenset({"i686", "ppc"}),
    "fat3": frozenset({"x86_64", "i686", "ppc"}),
    "fat32": frozenset({"i686", "ppc"}),
    "fat64": frozenset({"x86_64", "ppc64"}),
}
"""Endings of platform tags, and which architectures they stand for."""
_WORDS = {
    "i686": r"x86|i386|i686|ia32|win32|32",
    "x86_64": r"x64|amd64|x86_64|win64|64",
    "aarch64": r"arm64|aarch64",
}


def architectures_of(platform: str) -> frozenset[str]:
    """The architectures that a platform tag names; empty for ``any`` and for unknown ones."""
    endings = (name for name in _PROCESSORS if platform == name or platform.endswith(f"_{name}"))
    return _PROCESSORS.get(max(endings, key=len, default=""), frozenset())


def formats_of(platform: str) -> frozenset[Format]:
    """The format that the loader of a platform takes; every one where that is not known."""
    if platform.startswith("macosx_"):
        return frozenset({Format.MACHO})
    if platform.startswith("win"):
        return frozenset({Format.PE})
    return frozenset({Format.ELF}) if "linux" in platform else frozenset(Format)


def may_be_foreign(item: ObjectFile) -> bool:
    """Whether Windows takes it although its architecture is not the interpreter's.

    .NET code alone has none of its own, and a program runs in a process of its own. A library that
    is called by its architecture, and no extension module, is meant for such a process: debugpy's
    win_amd64 wheel attaches to 32-bit processes with ``attach_x86.dll``.
    """
    if not isinstance(item, PeFile):
        return False
    if item.managed or item.kind is Kind.EXECUTABLE:
        return True
    words = _WORDS.get(item.architecture)
    if words is None or is_extension(item):
        return False
    name = item.file_name.lower()
    unmistakable = {"i686": "32bit", "x86_64": "64bit", "aarch64": "arm64"}[item.architecture]
    return unmistakable in name or bool(re.search(rf"(?<![^\W_])(?:{words})(?![^\W_])", name))
