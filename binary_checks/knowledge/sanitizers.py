"""Runtimes of sanitizers, and objects that were built with one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from binary_checks.knowledge.library_names import strip_graft
from binary_checks.model import ObjectFile, Package

# GCC's libasan.so.8; LLVM's libclang_rt.asan-x86_64.so, libclang_rt.asan_osx_dynamic.dylib and
# clang_rt.asan_dynamic-x86_64.dll.
_RUNTIME = re.compile(
    r"(?:lib(?P<gcc>asan|hwasan|lsan|tsan|ubsan)"
    r"|(?:lib)?clang_rt\.(?P<llvm>asan|hwasan|lsan|msan|tsan|ubsan)\w*)[-.].*"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sanitizer:
    """One sanitizer of GCC and LLVM."""

    name: str
    option: str  # as in ``-fsanitize=address``
    comes_first: bool  # whether its runtime must be loaded before the C library


_SANITIZERS = {
    "asan": Sanitizer(name="AddressSanitizer", option="address", comes_first=True),
    "hwasan": Sanitizer(
        name="Hardware-assisted AddressSanitizer", option="hwaddress", comes_first=True
    ),
    "lsan": Sanitizer(name="LeakSanitizer", option="leak", comes_first=False),
    "msan": Sanitizer(name="MemorySanitizer", option="memory", comes_first=True),
    "tsan": Sanitizer(name="ThreadSanitizer", option="thread", comes_first=True),
    "ubsan": Sanitizer(name="UndefinedBehaviorSanitizer", option="undefined", comes_first=False),
}


def find_sanitizer(library: str) -> Sanitizer | None:
    """Return the sanitizer whose runtime has that file name or path, or None."""
    match = _RUNTIME.fullmatch(strip_graft(library.rpartition("/")[2]))
    return _SANITIZERS[match["gcc"] or match["llvm"]] if match else None


def find_sanitizer_in(message: str) -> str:
    """Return the first runtime of a sanitizer that a loader's message names, or ""."""
    names = (word.strip(":,'\"()").rpartition("/")[2] for word in message.split())
    return next((name for name in names if find_sanitizer(name)), "")


def find_runtimes(item: ObjectFile) -> Iterator[tuple[str, Sanitizer]]:
    """Yield the runtimes of sanitizers that an object needs, by name."""
    for need in item.needed:
        if sanitizer := find_sanitizer(need.name):
            yield need.name, sanitizer


def find_required_first(package: Package) -> Mapping[str, str]:
    """Return the runtimes that must be loaded first, by the path of the object that needs one.

    The path "" stands for the package: its runtime is the first one that an object needs.
    """
    found: dict[str, str] = {}
    for item in package.objects:
        for name, sanitizer in find_runtimes(item):
            if sanitizer.comes_first:
                found.setdefault(item.path, name)
                found.setdefault("", name)
    return found
