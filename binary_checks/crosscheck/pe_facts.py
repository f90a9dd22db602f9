"""What our own reader says of a PE image, in the terms that are compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from binary_checks.model import Kind, PeFile

_MACHINES = {
    "i686": 0x14C, "armel": 0x1C0, "armv7l": 0x1C4, "ia64": 0x200, "ebc": 0xEBC,
    "riscv32": 0x5032, "riscv64": 0x5064, "loongarch32": 0x6232, "loongarch64": 0x6264,
    "x86_64": 0x8664, "aarch64": 0xAA64,
    "arm64ec": 0x8664, "arm64x": 0xAA64,  # what the file header says of hybrid images
}  # fmt: skip


def pe_facts(item: PeFile) -> dict[str, Any]:
    """The facts by name; of a companion with debug information only what its headers say."""
    header = {
        "architecture": item.architecture,
        "file_machine": _machine_of(item.architecture),
        "characteristics": item.characteristics,
        "dll_characteristics": item.dll_characteristics,
        "subsystem": item.subsystem,
        "subsystem_version": item.subsystem_version,
        "linker_version": item.linker_version,
        "writable_executable": list(item.writable_executable),
    }
    if item.kind is Kind.DEBUG:
        return header
    exports = [(each.name, each.ordinal, each.forwarder) for each in item.exports]
    return header | {
        "name": item.name,
        "needed": [need.name for need in item.needed if not need.delayed],
        "delayed": [need.name for need in item.needed if need.delayed],
        "imports": sorted(f"{symbol.library}:{symbol.name}" for symbol in item.imports),
        "exports": sorted(spell_exports(exports)),
        "pdb": item.pdb,
        "dependent_load_flags": item.dependent_load_flags,
        "signed": item.signed,
        "signature_matches": _spell_truth(item.signature_matches),
    }


def _machine_of(architecture: str) -> int:
    """The number in the file header, which an architecture without a name is called by."""
    _, _, number = architecture.partition("machine-")
    return int(number, 0) if number else _MACHINES[architecture]


def _spell_truth(known: bool | None) -> str:
    return "" if known is None else str(known)


def spell_exports(exports: Iterable[tuple[str, int | None, str]]) -> Iterator[str]:
    """Spell each name, number and forwarder: ``name@1->OTHER.name``."""
    for name, ordinal, forwarder in exports:
        shown = "" if name.startswith("#") else name
        yield f"{shown}@{ordinal}" + (f"->{forwarder}" if forwarder else "")
