"""ELF: our facts, and the facts of pyelftools and LIEF.

pyelftools finds symbol versions only through section headers, and reads as many version records as
a forged header claims; the number is therefore limited here. LIEF is told to skip relocations and
static symbols.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from binary_checks.crosscheck.fact_tables import (
    Allowance,
    Fact,
    Facts,
    Library,
    Table,
    UnparsedError,
    silent,
    text,
)
from binary_checks.model import Kind, SymbolTable

_ISA = ("GNU_PROPERTY_X86_ISA_1_NEEDED", 0xC0008002)
_ISA_LEVELS = ((8, "x86-64-v4"), (4, "x86-64-v3"), (2, "x86-64-v2"))
_MACHINES = {
    ("SPARC", 32, ">"): "sparc",
    ("386", 32, "<"): "i686",
    ("MIPS", 32, "<"): "mipsel",
    ("MIPS", 32, ">"): "mips",
    ("MIPS", 64, "<"): "mips64el",
    ("MIPS", 64, ">"): "mips64",
    ("PPC", 32, ">"): "ppc",
    ("PPC64", 64, "<"): "ppc64le",
    ("PPC64", 64, ">"): "ppc64",
    ("S390", 32, ">"): "s390",
    ("S390", 64, ">"): "s390x",
    ("ARM", 32, "<"): "armv7l",
    ("ARM", 32, ">"): "armv7b",
    ("SPARCV9", 64, ">"): "sparc64",
    ("IA_64", 64, "<"): "ia64",
    ("X86_64", 32, "<"): "x32",
    ("X86_64", 64, "<"): "x86_64",
    ("AARCH64", 32, "<"): "aarch64_ilp32",
    ("AARCH64", 64, "<"): "aarch64",
    ("AARCH64", 64, ">"): "aarch64_be",
    ("RISCV", 32, "<"): "riscv32",
    ("RISCV", 64, "<"): "riscv64",
    ("LOONGARCH", 32, "<"): "loongarch32",
    ("LOONGARCH", 64, "<"): "loongarch64",
}
"""Our names of architectures by e_machine without ``EM_``, class and byte order."""
_DEVICES = {"QDSP6": "hexagon"} | {
    name: name.lower() for name in ("XTENSA", "HEXAGON", "CUDA", "AMDGPU", "BPF", "VE")
}
_CONVENTIONS = {
    "armv7l": (0x200, {0x200: "armel"}),
    "ppc64le": (3, {1: "ppc64le_elfv1"}),
    "riscv64": (6, {0: "riscv64_lp64", 2: "riscv64_lp64f", 6: "riscv64_lp64q"}),
    "loongarch64": (7, {1: "loongarch64_lp64s", 2: "loongarch64_lp64f"}),
}
"""Mask of e_flags, and the name of the architecture by value."""
_TEXTS = {"NEEDED": "name", "SONAME": "name", "RPATH": "rpath", "RUNPATH": "runpath"}
"""LIEF's attribute for the text of a dynamic entry."""
_INDEX = 0x7FFF  # mask of a version index; bit 15 marks a hidden version
_HIDDEN = 0x8000
_MOST_RECORDS = 1 << 12  # limit on libraries with needed versions, and on defined versions
_WITHOUT_SECTIONS = "it reads versions through section headers, which the file does not have"
_TURNED = "it swaps the words of a big-endian note"


_Tags = dict[str, list[Any]]  # values by tag without "DT_": strings or numbers


class _Symbol(NamedTuple):
    name: str
    binding: str  # "LOCAL", "WEAK" …
    undefined: bool
    visible: bool
    absolute: bool
    version: int  # including the bit for hidden versions


def _list_symbols(
    symbols: SymbolTable, default: str, *, own: Collection[str] = (), weak: str = ""
) -> list[str]:
    """Format symbols as readelf does; a copy of another library's symbol has one "@", too."""
    spelled = []
    for symbol in symbols:
        at = "@" if symbol.hidden or symbol.version not in own else default
        version = f"{at}{symbol.version}" if symbol.version else ""
        spelled.append(symbol.name + version + weak * symbol.weak)
    return sorted(spelled)


def _format_need(library: str, node: str, weak: bool) -> str:
    return f"{library} {node}" + "?" * weak


def _format_stack(flags: int | None) -> str:
    return "" if flags is None else "RWE" if flags & 1 else "RW"


FACTS = (
    Fact(
        "architecture", "e_machine, with class, byte order and calling convention (e_flags)",
        kinds=frozenset(Kind),
    ),
    Fact("needed", "DT_NEEDED, in order", lambda item: [need.name for need in item.needed]),
    Fact("soname", "DT_SONAME", lambda item: item.name),
    Fact("rpath", "DT_RPATH", lambda item: ":".join(item.rpath)),
    Fact("runpath", "DT_RUNPATH", lambda item: ":".join(item.runpath)),
    Fact("interpreter", "PT_INTERP"),
    Fact("build_id", "the note NT_GNU_BUILD_ID"),
    Fact("isa_level", "the property GNU_PROPERTY_X86_ISA_1_NEEDED"),
    Fact(
        "stack", "PT_GNU_STACK and whether it is executable",
        lambda item: _format_stack(item.executable_stack if item.stack_header else None),
    ),
    Fact("relro", "PT_GNU_RELRO"),
    Fact("bind_now", "DT_BIND_NOW, DF_BIND_NOW or DF_1_NOW"),
    Fact("text_relocations", "DT_TEXTREL or DF_TEXTREL"),
    Fact("writable_executable", "a PT_LOAD that is writable and executable"),
    Fact("static_tls", "DF_STATIC_TLS"),
    Fact("sysv_hash", "DT_HASH"),
    Fact("relative_relocations", "DT_RELR"),
    Fact("no_default_libraries", "DF_1_NODEFLIB"),
    Fact("alignment", "the smallest alignment of a PT_LOAD"),
    Fact(
        "version_needs", "version nodes needed of each library, and which of them are weak",
        lambda item: sorted(
            _format_need(node.library, node.version, node.weak) for node in item.symbol_versions
        ),
    ),
    Fact(
        "defined_versions", "version nodes defined",
        lambda item: sorted(item.defined_versions),
    ),
    Fact(
        "imports", "undefined dynamic symbols with versions, and which of them are weak",
        lambda item: _list_symbols(item.imports, "@", weak="?"),
    ),
    Fact(
        "exports", "defined dynamic symbols with versions, default or not",
        lambda item: _list_symbols(item.exports, "@@", own=frozenset(item.defined_versions)),
    ),
)  # fmt: skip


def _name_architecture(machine: str, bits: int, byte_order: str, flags: int) -> str:
    known = _MACHINES.get((machine, bits, byte_order))
    mask, conventions = _CONVENTIONS.get(known or "", (0, {}))
    known = conventions.get(flags & mask, known)
    return known or _DEVICES.get(machine) or f"unknown: {machine}"


def _describe_loading(tags: _Tags, segments: Sequence[tuple[str, int, int]]) -> Facts:
    """Return the facts of dynamic entries, and of segments: type, flags and alignment."""
    last = {tag: values[-1] for tag, values in tags.items()}
    flags, flags_1 = last.get("FLAGS", 0), last.get("FLAGS_1", 0)
    protections = {kind: protection for kind, protection, _ in segments}
    loads = [each[1:] for each in segments if each[0] == "LOAD"]
    return {
        "needed": tags.get("NEEDED", []),
        "soname": str(last.get("SONAME", "")),
        "rpath": str(last.get("RPATH", "")),
        "runpath": str(last.get("RUNPATH", "")),
        "stack": _format_stack(protections.get("GNU_STACK")),
        "relro": "GNU_RELRO" in protections,
        "bind_now": "BIND_NOW" in tags or bool(flags & 8 or flags_1 & 1),
        "text_relocations": "TEXTREL" in tags or bool(flags & 4),
        "writable_executable": any(protection & 3 == 3 for protection, _ in loads),
        "static_tls": bool(flags & 0x10),
        "sysv_hash": "HASH" in tags,
        "relative_relocations": "RELR" in tags,
        "no_default_libraries": bool(flags_1 & 0x800),
        "alignment": min((step for _, step in loads), default=0),
    }


def _describe_symbols(
    symbols: Collection[_Symbol],
    needs: Sequence[tuple[str, str, bool, int]],
    definitions: Sequence[tuple[int, str, bool]],
) -> Facts:
    """Return the facts of dynamic symbols and of their versions.

    Needs are library, version node, whether the need is weak, and version index. Definitions are
    version index, version node, and whether the node is the base node, which stands for the
    library.
    """
    own = {index: node for index, node, base in definitions if not base}
    nodes = {index: node for _, node, _, index in needs} | own
    return {
        "version_needs": sorted(_format_need(*need[:3]) for need in needs),
        "defined_versions": sorted(node for _, node, base in definitions if not base),
        "imports": sorted(_iter_versioned(symbols, nodes)),
        "exports": sorted(_iter_versioned(symbols, nodes, frozenset(own.values()))),
    }


def _iter_versioned(
    symbols: Iterable[_Symbol], nodes: dict[int, str], own: Collection[str] | None = None
) -> Iterator[str]:
    """Yield the undefined symbols; the defined ones if the file's own version nodes are given."""
    for symbol in symbols:
        if symbol.binding == "LOCAL" or not symbol.name or symbol.undefined is not (own is None):
            continue
        node = nodes.get(symbol.version & _INDEX, "")
        if own is None:
            yield symbol.name + f"@{node}" * bool(node) + "?" * (symbol.binding == "WEAK")
        elif symbol.visible and not (symbol.absolute and symbol.name == node):
            at = "@" if symbol.version & _HIDDEN or node not in own else "@@"
            yield symbol.name + f"{at}{node}" * bool(node)


def _look_with_pyelftools(path: str) -> dict[str, Facts]:
    from elftools.elf.elffile import ELFFile

    with open(path, "rb") as stream:  # noqa: PTH123 - it keeps the stream, and names no path
        elf = ELFFile(stream)
        machine, order = elf.header["e_machine"], "<" if elf.little_endian else ">"
        name = machine.removeprefix("EM_") if isinstance(machine, str) else str(machine)
        segments: list[Any] = list(elf.iter_segments())
        loading = _describe_loading(
            _read_tags(segments),
            [
                (str(each["p_type"]).removeprefix("PT_"), each["p_flags"], each["p_align"])
                for each in segments
            ],
        )
        facts = {
            "architecture": _name_architecture(name, elf.elfclass, order, elf.header["e_flags"]),
            **loading,
            **_read_texts(segments),
            **_read_symbols(list(elf.iter_sections())),
        }
        return {"": facts}


def _read_tags(segments: Iterable[Any]) -> _Tags:
    tags: _Tags = {}
    dynamic = next((each for each in segments if each["p_type"] == "PT_DYNAMIC"), None)
    for tag in dynamic.iter_tags() if dynamic else ():
        name = str(tag.entry.d_tag).removeprefix("DT_")
        tags.setdefault(name, []).append(getattr(tag, name.lower(), tag.entry.d_val))
    return tags


def _read_texts(segments: Iterable[Any]) -> Facts:
    """Return the interpreter, and what the notes state."""
    facts = {"interpreter": "", "build_id": "", "isa_level": ""}
    for segment in segments:
        if segment["p_type"] == "PT_INTERP":
            facts["interpreter"] = segment.get_interp_name()
        has_notes = hasattr(segment, "iter_notes")
        for note in islice(segment.iter_notes(), _INDEX) if has_notes else ():
            kind = note["n_type"] if note["n_name"] == "GNU" else ""
            if kind == "NT_GNU_BUILD_ID" and not facts["build_id"]:
                facts["build_id"] = note["n_desc"]
            elif kind == "NT_GNU_PROPERTY_TYPE_0" and not facts["isa_level"]:
                found = [int(each["pr_data"]) for each in note["n_desc"] if each["pr_type"] in _ISA]
                levels = (name for bit, name in _ISA_LEVELS if found and found[0] & bit)
                facts["isa_level"] = next(levels, "")
    return facts


def _read_symbols(sections: list[Any]) -> Facts:
    if not sections:
        names = ("version_needs", "defined_versions", "imports", "exports")
        return dict.fromkeys(names, silent(_WITHOUT_SECTIONS))
    by_type = {each["sh_type"]: each for each in reversed(sections)}  # the first of each type
    return _describe_symbols(
        list(_iter_symbols(by_type.get("SHT_DYNSYM"), by_type.get("SHT_GNU_versym"))),
        [
            (need.name, each.name, bool(each["vna_flags"] & 2), each["vna_other"] & _INDEX)
            for need, items in _walk(by_type.get("SHT_GNU_verneed"))
            for each in islice(items, _INDEX)
        ],
        [
            (each["vd_ndx"], next(iter(names)).name, bool(each["vd_flags"] & 1))
            for each, names in _walk(by_type.get("SHT_GNU_verdef"))
        ],
    )


def _iter_symbols(table: Any, versions: Any) -> Iterator[_Symbol]:
    for index, symbol in enumerate(table.iter_symbols() if table is not None else ()):
        version: Any = versions.get_symbol(index)["ndx"] if versions is not None else 0
        yield _Symbol(
            name=symbol.name,
            binding=symbol["st_info"]["bind"].removeprefix("STB_"),
            undefined=symbol["st_shndx"] == "SHN_UNDEF",
            visible=symbol["st_other"]["visibility"] in ("STV_DEFAULT", "STV_PROTECTED"),
            absolute=symbol["st_shndx"] == "SHN_ABS",
            version=version if isinstance(version, int) else 0,
        )


def _walk(section: Any) -> Iterator[Any]:
    return islice(section.iter_versions(), _MOST_RECORDS) if section is not None else iter(())


def _look_with_lief(path: str) -> dict[str, Facts]:
    import lief

    lief.logging.disable()
    wanted = lief.ELF.ParserConfig()
    wanted.parse_relocations = wanted.parse_symtab_symbols = wanted.parse_overlay = False
    item: Any = lief.ELF.parse(path, wanted)
    if item is None:
        raise UnparsedError("it does not parse the file")
    header = item.header
    tags: _Tags = {}
    for entry in item.dynamic_entries:
        name = getattr(entry.tag, "name", str(entry.tag))
        value = text(getattr(entry, _TEXTS[name])) if name in _TEXTS else entry.value
        tags.setdefault(name, []).append(value)
    bits = 32 if header.identity_class.name == "ELF32" else 64
    order = "<" if header.identity_data.name == "LSB" else ">"
    machine = header.machine_type.name.replace("I386", "386")
    facts: Facts = {
        "architecture": _name_architecture(machine, bits, order, header.processor_flag),
        "interpreter": text(item.interpreter) if item.has_interpreter else "",
        "build_id": "",
        "isa_level": "",
        **_describe_loading(
            tags,
            [(getattr(e.type, "name", ""), int(e.flags), e.alignment) for e in item.segments],
        ),
        **_describe_symbols(
            [
                _Symbol(
                    name=text(symbol.name),
                    binding=getattr(symbol.binding, "name", ""),
                    undefined=symbol.shndx == 0,
                    # STV_DEFAULT and STV_PROTECTED; LIEF's property includes other bits of ppc64le.
                    visible=symbol.other & 3 in (0, 3),
                    absolute=symbol.shndx == 0xFFF1,
                    version=symbol.symbol_version.value if symbol.has_version else 0,
                )
                for symbol in item.dynamic_symbols
            ],
            [
                (text(need.name), text(each.name), bool(each.flags & 2), each.other & _INDEX)
                for need in item.symbols_version_requirement
                for each in need.get_auxiliary_symbols()
            ],
            [
                (each.ndx, text(next(iter(each.auxiliary_symbols)).name), bool(each.flags & 1))
                for each in item.symbols_version_definition
            ],
        ),
    }
    for note in item.notes:
        kind = getattr(note.type, "name", "")
        if kind == "GNU_BUILD_ID" and not facts["build_id"]:
            facts["build_id"] = bytes(note.description).hex()
        elif kind == "GNU_PROPERTY_TYPE_0" and not facts["isa_level"]:
            isa = note.find(lief.ELF.NoteGnuProperty.Property.TYPE.X86_ISA)
            needed = {
                each.name for flag, each in (isa.values if isa else ()) if flag.name == "NEEDED"
            }
            levels = (name for _, name in _ISA_LEVELS if name[-2:].upper() in needed)
            facts["isa_level"] = next(levels, "")
    if order == ">":
        facts |= dict.fromkeys(("build_id", "isa_level"), silent(_TURNED))
    return {"": facts}


TABLE = Table(
    facts=FACTS,
    libraries=(
        Library(
            name="pyelftools",
            distribution="pyelftools",
            look=_look_with_pyelftools,
        ),
        Library(
            name="LIEF",
            distribution="lief",
            look=_look_with_lief,
            allowances={
                "build_id": Allowance(
                    reason="it counts the padding to 4 bytes as part of the note "
                    "(linkers write 8, 16 or 20 bytes)",
                    narrow=lambda build_id: build_id + "0" * (-len(build_id) % 8),
                ),
            },
        ),
    ),
)
