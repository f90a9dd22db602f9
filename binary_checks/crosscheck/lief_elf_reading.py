"""What LIEF reads in an ELF file; relocations and static symbols are not asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import lief

from binary_checks.crosscheck.readings import (
    ELF_MACHINES,
    ISA_LEVELS,
    Reading,
    silence,
    text,
    unparsed,
)

_TAGS = lief.ELF.DynamicEntry.TAG
_SEGMENTS = lief.ELF.Segment.TYPE
_VISIBLE = (0, 3)  # STV_DEFAULT, STV_PROTECTED; LIEF's own word also has ppc64le's other bits
_SHN_ABS = 0xFFF1
_HIDDEN = 0x8000


def read(path: str) -> dict[str, Reading]:
    """The facts of the file, under ""."""
    lief.logging.disable()
    wanted = lief.ELF.ParserConfig()
    wanted.parse_relocations = wanted.parse_symtab_symbols = wanted.parse_overlay = False
    item = lief.ELF.parse(path, wanted)
    if item is None:
        raise unparsed()
    facts = {"architecture": _name_architecture(item.header)}
    facts |= _read_dynamic(item.dynamic_entries) | _read_segments(item.segments)
    facts["interpreter"] = text(item.interpreter) if item.has_interpreter else ""
    notes = _read_notes(item.notes)
    if item.header.identity_data == lief.ELF.Header.ELF_DATA.MSB:
        notes = dict.fromkeys(notes, silence("it turns the words of a big-endian note around"))
    return {"": facts | notes | _read_versions(item) | _read_symbols(item)}


def _name_architecture(header: Any) -> str:
    machine = header.machine_type.name.replace("I386", "386")
    bits = 32 if header.identity_class == lief.ELF.Header.CLASS.ELF32 else 64
    order = "<" if header.identity_data == lief.ELF.Header.ELF_DATA.LSB else ">"
    soft = machine == "ARM" and header.processor_flag & 0x200
    known = ELF_MACHINES.get((machine, bits, order)) or ELF_MACHINES.get((machine, 0, ""))
    return "armel" if soft else known or f"unknown: {header.machine_type}"


def _read_dynamic(entries: Iterable[Any]) -> Reading:
    facts: Reading = {"needed": [], "soname": "", "rpath": "", "runpath": ""}
    values: dict[Any, int] = {}
    for entry in entries:
        values[entry.tag] = entry.value
        if entry.tag == _TAGS.NEEDED:
            facts["needed"].append(text(entry.name))
        elif entry.tag == _TAGS.SONAME:
            facts["soname"] = text(entry.name)
        elif entry.tag == _TAGS.RPATH:
            facts["rpath"] = text(entry.rpath)
        elif entry.tag == _TAGS.RUNPATH:
            facts["runpath"] = text(entry.runpath)
    flags, flags_1 = values.get(_TAGS.FLAGS, 0), values.get(_TAGS.FLAGS_1, 0)
    return facts | {
        "bind_now": bool(_TAGS.BIND_NOW in values or flags & 8 or flags_1 & 1),
        "text_relocations": bool(_TAGS.TEXTREL in values or flags & 4),
        "static_tls": bool(flags & 0x10),
        "relative_relocations": _TAGS.RELR in values,
        "no_default_libraries": bool(flags_1 & 0x800),
    }


def _read_segments(segments: Iterable[Any]) -> Reading:
    facts: Reading = {"stack": "", "relro": False}
    every = [(segment.type, int(segment.flags), segment.alignment) for segment in segments]
    loads = [(flags, alignment) for kind, flags, alignment in every if kind == _SEGMENTS.LOAD]
    for kind, flags, _ in every:
        if kind == _SEGMENTS.GNU_STACK:
            facts["stack"] = "RWE" if flags & 1 else "RW"
        elif kind == _SEGMENTS.GNU_RELRO:
            facts["relro"] = True
    facts["writable_executable"] = any(flags & 3 == 3 for flags, _ in loads)
    facts["alignment"] = min((alignment for _, alignment in loads), default=0)
    return facts


def _read_notes(notes: Iterable[Any]) -> Reading:
    build_id = isa_level = ""
    for note in notes:
        if note.type == lief.ELF.Note.TYPE.GNU_BUILD_ID and not build_id:
            build_id = bytes(note.description).hex()
        elif note.type == lief.ELF.Note.TYPE.GNU_PROPERTY_TYPE_0 and not isa_level:
            isa_level = _find_isa_level(note)
    return {"build_id": build_id, "isa_level": isa_level}


def _find_isa_level(note: Any) -> str:
    found = note.find(lief.ELF.NoteGnuProperty.Property.TYPE.X86_ISA)
    needed = {
        isa.name
        for flag, isa in (found.values if found else ())
        if flag == lief.ELF.X86ISA.FLAG.NEEDED
    }
    return next((name for _, name in ISA_LEVELS if name[-2:].upper() in needed), "")


def _read_versions(item: Any) -> Reading:
    needs = [
        f"{text(need.name)} {text(each.name)}" + "?" * bool(each.flags & 2)
        for need in item.symbols_version_requirement
        for each in need.get_auxiliary_symbols()
    ]
    defined = [
        text(next(iter(each.auxiliary_symbols)).name)
        for each in item.symbols_version_definition
        if not each.flags & 1
    ]
    return {"version_needs": sorted(needs), "defined_versions": sorted(defined)}


def _read_symbols(item: Any) -> Reading:
    definitions = [
        (each.ndx, text(next(iter(each.auxiliary_symbols)).name), bool(each.flags & 1))
        for each in item.symbols_version_definition
    ]
    # The base node stands for the library itself: a symbol bound to it has no version.
    nodes = {0: "", 1: ""} | {index: "" if base else name for index, name, base in definitions}
    own = {index for index, _, base in definitions if not base}
    imports: list[str] = []
    exports: list[str] = []
    for symbol in item.dynamic_symbols:
        name = text(symbol.name)
        if symbol.binding == lief.ELF.Symbol.BINDING.LOCAL or not name:
            continue
        index, node = _find_version(symbol, nodes)
        if symbol.shndx == 0:
            weak = "?" * (symbol.binding == lief.ELF.Symbol.BINDING.WEAK)
            imports.append(name + f"@{node}" * bool(node) + weak)
        elif symbol.other & 3 in _VISIBLE and (symbol.shndx != _SHN_ABS or name != node):
            exports.append(name + f"{'@@' if index in own else '@'}{node}" * bool(node))
    return {"imports": sorted(imports), "exports": sorted(exports)}


def _find_version(symbol: Any, nodes: dict[int, str]) -> tuple[int, str]:
    """The index of a symbol's version with the bit for hidden, and the version."""
    if not symbol.has_version:
        return 0, ""
    version = symbol.symbol_version
    if (plain := version.value & ~_HIDDEN) in nodes:
        return version.value, nodes[plain]
    known = version.has_auxiliary_version
    return version.value, text(version.symbol_version_auxiliary.name) if known else ""
