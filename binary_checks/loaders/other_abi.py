"""Finds the functions that are undefined only because another std::string was compiled in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from binary_checks.loaders.file_layout import FileLayout
from binary_checks.model import ElfFile, UnresolvedSymbol
from binary_checks.model.mangling import function_of, is_other_abi


def mark_other_abi(
    unresolved: tuple[UnresolvedSymbol, ...], layout: FileLayout[ElfFile]
) -> tuple[UnresolvedSymbol, ...]:
    """Say of each symbol that nothing defines which library has it under the other C++ ABI."""
    wanted: dict[str, list[str]] = {}
    for item in unresolved:
        if not (item.elsewhere or item.provider) and (function := _function(item.name)):
            wanted.setdefault(function, []).append(item.name)
    found: dict[str, str] = {}
    for library in layout.libraries if wanted else ():
        for name, asked in _pair(library.exports.each_name(), wanted):
            if is_other_abi(asked, name):
                found.setdefault(asked, layout.label_of(library))
    if not found:
        return unresolved
    return tuple(replace(item, other_abi=found.get(item.name, "")) for item in unresolved)


def _function(name: str) -> str:
    return function_of(name) if name.startswith("_Z") else ""


def _pair(exported: Iterable[str], wanted: dict[str, list[str]]) -> Iterable[tuple[str, str]]:
    """What is exported and what is asked for, where both are one function."""
    for name in exported:
        if name[:2] == "_Z" and (asked := wanted.get(function_of(name))):
            yield from ((name, each) for each in asked)
