"""What our own reader says of an ELF file, in the terms that are compared."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from binary_checks.model import ElfFile, Kind, SymbolTable

_LOADED = frozenset({Kind.SHARED, Kind.EXECUTABLE})


def elf_facts(item: ElfFile) -> dict[str, Any]:
    """The facts by name; of a file that nothing loads no more than its header is read."""
    if item.kind not in _LOADED:
        return {"architecture": item.architecture}
    stack = "RWE" if item.executable_stack else "RW"
    return {
        "architecture": item.architecture,
        "needed": [dependency.name for dependency in item.needed],
        "soname": item.name,
        "rpath": ":".join(item.rpath),
        "runpath": ":".join(item.runpath),
        "interpreter": item.interpreter,
        "build_id": item.build_id,
        "isa_level": item.isa_level,
        "stack": stack if item.stack_header else "",
        "relro": item.relro,
        "bind_now": item.bind_now,
        "text_relocations": item.text_relocations,
        "writable_executable": item.writable_executable,
        "static_tls": item.static_tls,
        "relative_relocations": item.relative_relocations,
        "no_default_libraries": item.no_default_libraries,
        "alignment": item.alignment,
        "version_needs": sorted(
            f"{node.library} {node.version}" + "?" * node.weak for node in item.symbol_versions
        ),
        "defined_versions": sorted(item.defined_versions),
        "imports": sorted(spell_symbols(item.imports, "@", weak="?")),
        "exports": sorted(spell_symbols(item.exports, "@@", own=item.defined_versions)),
    }


def spell_symbols(
    symbols: SymbolTable, default: str, *, own: Collection[str] = (), weak: str = ""
) -> Iterator[str]:
    """Spell symbols as readelf does, a copy of another library's symbol with one "@" too."""
    for symbol in symbols:
        at = "@" if symbol.hidden or symbol.version not in own else default
        version = f"{at}{symbol.version}" if symbol.version else ""
        yield symbol.name + version + weak * symbol.weak
