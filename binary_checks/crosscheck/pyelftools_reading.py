"""What pyelftools reads in an ELF file.

It takes symbol versions through the section headers alone, and counts version records as a forged
header says, four thousand million of them if need be: the walk is cut here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerDefSection, GNUVerNeedSection, GNUVerSymSection
from elftools.elf.sections import SymbolTableSection
from elftools.elf.segments import InterpSegment, NoteSegment

from binary_checks.crosscheck.readings import ELF_MACHINES, ISA_LEVELS, Reading, silence

_MOST = 0x7FFF  # version indices have 15 bits
_MOST_RECORDS = 1 << 12  # of libraries of which versions are needed, and of versions defined
_WITHOUT_SECTIONS = "it reads versions through section headers, which the file does not have"
_SYMBOLS = ("version_needs", "defined_versions", "imports", "exports")


def read(path: str) -> dict[str, Reading]:
    """The facts of the file, under ""."""
    with open(path, "rb") as stream:  # noqa: PTH123 - it keeps the stream, and names no path
        elf = ELFFile(stream)
        facts = {"architecture": _name_architecture(elf)}
        segments = list(elf.iter_segments())
        facts |= _read_dynamic(segments) | _read_segments(segments) | _read_notes(segments)
        facts |= _read_symbols(elf)
        return {"": facts}


def _name_architecture(elf: ELFFile) -> str:
    machine = elf.header["e_machine"]
    name = machine.removeprefix("EM_") if isinstance(machine, str) else str(machine)
    order = "<" if elf.little_endian else ">"
    soft = name == "ARM" and elf.header["e_flags"] & 0x200
    known = ELF_MACHINES.get((name, elf.elfclass, order))
    return "armel" if soft else known or ELF_MACHINES.get((name, 0, "")) or f"unknown: {machine}"


def _read_dynamic(segments: Iterable[Any]) -> Reading:
    facts: Reading = {"needed": [], "soname": "", "rpath": "", "runpath": ""}
    values: dict[str, int] = {}
    dynamic = next((each for each in segments if isinstance(each, DynamicSegment)), None)
    for tag in dynamic.iter_tags() if dynamic else ():
        name = str(tag.entry.d_tag)
        values[name] = tag.entry.d_val
        if name == "DT_NEEDED":
            facts["needed"].append(getattr(tag, "needed"))  # noqa: B009 - set at run time
        elif name in ("DT_SONAME", "DT_RPATH", "DT_RUNPATH"):
            facts[name[3:].lower()] = getattr(tag, name[3:].lower())
    flags, flags_1 = values.get("DT_FLAGS", 0), values.get("DT_FLAGS_1", 0)
    return facts | {
        "bind_now": bool("DT_BIND_NOW" in values or flags & 8 or flags_1 & 1),
        "text_relocations": bool("DT_TEXTREL" in values or flags & 4),
        "static_tls": bool(flags & 0x10),
        "relative_relocations": "DT_RELR" in values,
        "no_default_libraries": bool(flags_1 & 0x800),
    }


def _read_segments(segments: Iterable[Any]) -> Reading:
    facts: Reading = {"interpreter": "", "stack": "", "relro": False}
    loads = [segment for segment in segments if segment["p_type"] == "PT_LOAD"]
    for segment in segments:
        if isinstance(segment, InterpSegment):
            facts["interpreter"] = segment.get_interp_name()
        elif segment["p_type"] == "PT_GNU_STACK":
            facts["stack"] = "RWE" if segment["p_flags"] & 1 else "RW"
        elif segment["p_type"] == "PT_GNU_RELRO":
            facts["relro"] = True
    facts["writable_executable"] = any(load["p_flags"] & 3 == 3 for load in loads)
    facts["alignment"] = min((load["p_align"] for load in loads), default=0)
    return facts


def _read_notes(segments: Iterable[Any]) -> Reading:
    build_id = isa_level = ""
    notes = (note for each in segments if isinstance(each, NoteSegment) for note in _notes(each))
    for note in notes:
        if note["n_type"] == "NT_GNU_BUILD_ID" and not build_id:
            build_id = note["n_desc"]
        elif note["n_type"] == "NT_GNU_PROPERTY_TYPE_0" and not isa_level:
            isa_level = _find_isa_level(note["n_desc"])
    return {"build_id": build_id, "isa_level": isa_level}


def _notes(segment: Any) -> Iterator[Any]:
    return (note for note in islice(segment.iter_notes(), _MOST) if note["n_name"] == "GNU")


def _find_isa_level(properties: Iterable[Any]) -> str:
    for item in properties:
        if item["pr_type"] in ("GNU_PROPERTY_X86_ISA_1_NEEDED", 0xC0008002):
            mask = item["pr_data"]
            return next((name for bit, name in ISA_LEVELS if int(mask) & bit), "")
    return ""


def _read_symbols(elf: ELFFile) -> Reading:
    sections = list(elf.iter_sections())
    table = next((s for s in sections if s["sh_type"] == "SHT_DYNSYM"), None)
    if not sections:
        return dict.fromkeys(_SYMBOLS, silence(_WITHOUT_SECTIONS))
    needs = list(_walk(sections, GNUVerNeedSection))
    definitions = [
        (each["vd_ndx"], next(iter(names)).name, bool(each["vd_flags"] & 1))
        for each, names in _walk(sections, GNUVerDefSection)
    ]
    auxiliaries = [(need.name, item) for need, items in needs for item in islice(items, _MOST)]
    own = {index: name for index, name, base in definitions if not base}
    nodes = {item["vna_other"] & 0x7FFF: item.name for _, item in auxiliaries} | own
    imports, exports = _sort_symbols(table, sections, nodes, frozenset(own.values()))
    return {
        "version_needs": sorted(
            f"{library} {item.name}" + "?" * bool(item["vna_flags"] & 2)
            for library, item in auxiliaries
        ),
        "defined_versions": sorted(name for _, name, base in definitions if not base),
        "imports": imports,
        "exports": exports,
    }


def _walk(sections: Iterable[Any], kind: type) -> Iterator[Any]:
    section: Any = next((each for each in sections if isinstance(each, kind)), None)
    return islice(section.iter_versions(), _MOST_RECORDS) if section is not None else iter(())


def _sort_symbols(
    table: Any, sections: Iterable[Any], nodes: dict[int, str], own: frozenset[str]
) -> tuple[list[str], list[str]]:
    if not isinstance(table, SymbolTableSection):
        return [], []
    spelling = next((s for s in sections if isinstance(s, GNUVerSymSection)), None)
    imports, exports = [], []
    for index, symbol in enumerate(table.iter_symbols()):
        if symbol["st_info"]["bind"] == "STB_LOCAL" or not symbol.name:
            continue
        version: Any = spelling.get_symbol(index)["ndx"] if spelling is not None else 0
        version = version if isinstance(version, int) else 0
        hidden, node = version >> 15, nodes.get(version & 0x7FFF, "")
        if symbol["st_shndx"] == "SHN_UNDEF":
            weak = "?" * (symbol["st_info"]["bind"] == "STB_WEAK")
            imports.append(symbol.name + f"@{node}" * bool(node) + weak)
        elif symbol["st_other"]["visibility"] in ("STV_DEFAULT", "STV_PROTECTED"):
            at = "@" if hidden or node not in own else "@@"
            if symbol["st_shndx"] != "SHN_ABS" or symbol.name != node:
                exports.append(symbol.name + f"{at}{node}" * bool(node))
    return sorted(imports), sorted(exports)
