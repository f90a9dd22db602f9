"""ELF: our facts, and the facts of pyelftools and LIEF.

pyelftools finds symbol versions only through section headers, and reads as many version records as
a forged header claims; the number is therefore limited here. LIEF is told to skip relocations and
static symbols.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from binary_checks.crosscheck.fact_tables import (
    Allowance,
    Fact,
    Library,
    Table,
    UnparsedError,
    View,
    text,
)
from binary_checks.model import Format, Kind, SymbolTable

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


class _Symbol(NamedTuple):
    name: str
    binding: str  # "LOCAL", "WEAK" …
    undefined: bool
    visible: bool
    absolute: bool
    version: int  # including the bit for hidden versions


@dataclass(kw_only=True)
class ElfView(View):
    """An ELF file as read by a library."""

    machine: str  # without "EM_"
    bits: int
    byte_order: str
    flags: int
    tags: dict[str, list[Any]]  # by name without "DT_": strings or numbers
    segments: list[tuple[str, int, int]]  # type without "PT_", flags, alignment
    interpreter: str = ""
    build_id: str = ""
    isa_level: str = ""
    needs: list[tuple[str, str, bool, int]] = field(default_factory=list)
    """Library, version node, whether the need is weak, version index."""
    definitions: list[tuple[int, str, bool]] = field(default_factory=list)
    """Version index, version node, whether the node is the base node, which stands for the
    library.
    """
    symbols: list[_Symbol] = field(default_factory=list)

    def has(self, tag: str, flags: int = 0, flags_1: int = 0) -> bool:
        """Return whether the file has the entry, or a flag with the same meaning."""
        lists = ((self.tags.get("FLAGS"), flags), (self.tags.get("FLAGS_1"), flags_1))
        return tag in self.tags or any(found and found[-1] & mask for found, mask in lists)

    def last(self, tag: str) -> str:
        """Return the string of the last entry with this tag."""
        return str(self.tags.get(tag, [""])[-1])

    def loads(self) -> list[tuple[int, int]]:
        """Return flags and alignments of PT_LOAD segments."""
        return [(flags, step) for kind, flags, step in self.segments if kind == "LOAD"]

    def flags_of(self, kind: str) -> int | None:
        """Return the flags of the last segment of this type."""
        return next((flags for each, flags, _ in reversed(self.segments) if each == kind), None)


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


def _iter_versioned(view: ElfView, *, imports: bool) -> Iterator[str]:
    own = {index: name for index, name, base in view.definitions if not base}
    nodes = {index: name for _, name, _, index in view.needs} | own
    defined = frozenset(own.values())
    for symbol in view.symbols:
        if symbol.binding == "LOCAL" or not symbol.name or symbol.undefined is not imports:
            continue
        node = nodes.get(symbol.version & _INDEX, "")
        if imports:
            yield symbol.name + f"@{node}" * bool(node) + "?" * (symbol.binding == "WEAK")
        elif symbol.visible and not (symbol.absolute and symbol.name == node):
            at = "@" if symbol.version & _HIDDEN or node not in defined else "@@"
            yield symbol.name + f"{at}{node}" * bool(node)


def _name_architecture(view: ElfView) -> str:
    known = _MACHINES.get((view.machine, view.bits, view.byte_order))
    mask, names = _CONVENTIONS.get(known or "", (0, {}))
    known = names.get(view.flags & mask, known)
    return known or _DEVICES.get(view.machine) or f"unknown: {view.machine}"


def _format_need(library: str, node: str, weak: bool) -> str:
    return f"{library} {node}" + "?" * weak


def _format_stack(flags: int | None) -> str:
    return "" if flags is None else "RWE" if flags & 1 else "RW"


FACTS = (
    Fact(
        "architecture",
        "e_machine, with class, byte order and calling convention (e_flags)",
        theirs=_name_architecture,
        kinds=frozenset(Kind),
    ),
    Fact(
        "needed",
        "DT_NEEDED, in order",
        lambda item: [need.name for need in item.needed],
        lambda view: view.tags.get("NEEDED", []),
    ),
    Fact("soname", "DT_SONAME", lambda item: item.name, lambda view: view.last("SONAME")),
    Fact("rpath", "DT_RPATH", lambda item: ":".join(item.rpath), lambda view: view.last("RPATH")),
    Fact(
        "runpath", "DT_RUNPATH",
        lambda item: ":".join(item.runpath), lambda view: view.last("RUNPATH"),
    ),
    Fact("interpreter", "PT_INTERP"),
    Fact("build_id", "the note NT_GNU_BUILD_ID"),
    Fact("isa_level", "the property GNU_PROPERTY_X86_ISA_1_NEEDED"),
    Fact(
        "stack",
        "PT_GNU_STACK and whether it is executable",
        lambda item: _format_stack(item.executable_stack if item.stack_header else None),
        lambda view: _format_stack(view.flags_of("GNU_STACK")),
    ),
    Fact("relro", "PT_GNU_RELRO", theirs=lambda view: view.flags_of("GNU_RELRO") is not None),
    Fact(
        "bind_now", "DT_BIND_NOW, DF_BIND_NOW or DF_1_NOW",
        theirs=lambda view: view.has("BIND_NOW", flags=8, flags_1=1),
    ),
    Fact(
        "text_relocations", "DT_TEXTREL or DF_TEXTREL",
        theirs=lambda view: view.has("TEXTREL", flags=4),
    ),
    Fact(
        "writable_executable", "a PT_LOAD that is writable and executable",
        theirs=lambda view: any(flags & 3 == 3 for flags, _ in view.loads()),
    ),
    Fact("static_tls", "DF_STATIC_TLS", theirs=lambda view: view.has("", flags=0x10)),
    Fact("sysv_hash", "DT_HASH", theirs=lambda view: view.has("HASH")),
    Fact("relative_relocations", "DT_RELR", theirs=lambda view: view.has("RELR")),
    Fact("no_default_libraries", "DF_1_NODEFLIB", theirs=lambda view: view.has("", flags_1=0x800)),
    Fact(
        "alignment", "the smallest alignment of a PT_LOAD",
        theirs=lambda view: min((step for _, step in view.loads()), default=0),
    ),
    Fact(
        "version_needs", "version nodes needed of each library, and which of them are weak",
        lambda item: sorted(
            _format_need(node.library, node.version, node.weak) for node in item.symbol_versions
        ),
        lambda view: sorted(_format_need(*need[:3]) for need in view.needs),
    ),
    Fact(
        "defined_versions", "version nodes defined",
        lambda item: sorted(item.defined_versions),
        lambda view: sorted(name for _, name, base in view.definitions if not base),
    ),
    Fact(
        "imports", "undefined dynamic symbols with versions, and which of them are weak",
        lambda item: _list_symbols(item.imports, "@", weak="?"),
        lambda view: sorted(_iter_versioned(view, imports=True)),
    ),
    Fact(
        "exports", "defined dynamic symbols with versions, default or not",
        lambda item: _list_symbols(item.exports, "@@", own=frozenset(item.defined_versions)),
        lambda view: sorted(_iter_versioned(view, imports=False)),
    ),
)  # fmt: skip


def _look_with_pyelftools(path: str) -> list[ElfView]:
    from elftools.elf.elffile import ELFFile

    with open(path, "rb") as stream:  # noqa: PTH123 - it keeps the stream, and names no path
        elf = ELFFile(stream)
        machine = elf.header["e_machine"]
        segments: list[Any] = list(elf.iter_segments())
        view = ElfView(
            machine=machine.removeprefix("EM_") if isinstance(machine, str) else str(machine),
            bits=elf.elfclass,
            byte_order="<" if elf.little_endian else ">",
            flags=elf.header["e_flags"],
            tags=_read_tags(segments),
            segments=[
                (str(each["p_type"]).removeprefix("PT_"), each["p_flags"], each["p_align"])
                for each in segments
            ],
        )
        for segment in segments:
            if segment["p_type"] == "PT_INTERP":
                view.interpreter = segment.get_interp_name()
            has_notes = hasattr(segment, "iter_notes")
            for note in islice(segment.iter_notes(), _INDEX) if has_notes else ():
                if note["n_name"] == "GNU":
                    _add_note(view, note)
        sections = list(elf.iter_sections())
        if sections:
            _add_versions(view, sections)
        else:
            names = ("version_needs", "defined_versions", "imports", "exports")
            view.silent = dict.fromkeys(names, _WITHOUT_SECTIONS)
        return [view]


def _read_tags(segments: Iterable[Any]) -> dict[str, list[Any]]:
    tags: dict[str, list[Any]] = {}
    dynamic = next((each for each in segments if each["p_type"] == "PT_DYNAMIC"), None)
    for tag in dynamic.iter_tags() if dynamic else ():
        name = str(tag.entry.d_tag).removeprefix("DT_")
        tags.setdefault(name, []).append(getattr(tag, name.lower(), tag.entry.d_val))
    return tags


def _add_note(view: ElfView, note: Any) -> None:
    if note["n_type"] == "NT_GNU_BUILD_ID" and not view.build_id:
        view.build_id = note["n_desc"]
    elif note["n_type"] == "NT_GNU_PROPERTY_TYPE_0" and not view.isa_level:
        needed = ("GNU_PROPERTY_X86_ISA_1_NEEDED", 0xC0008002)
        found = [int(each["pr_data"]) for each in note["n_desc"] if each["pr_type"] in needed]
        mask = found[0] if found else 0
        view.isa_level = next((name for bit, name in _ISA_LEVELS if mask & bit), "")


def _add_versions(view: ElfView, sections: list[Any]) -> None:
    by_type = {each["sh_type"]: each for each in reversed(sections)}  # the first of each type
    view.needs = [
        (need.name, each.name, bool(each["vna_flags"] & 2), each["vna_other"] & _INDEX)
        for need, items in _walk(by_type.get("SHT_GNU_verneed"))
        for each in islice(items, _INDEX)
    ]
    view.definitions = [
        (each["vd_ndx"], next(iter(names)).name, bool(each["vd_flags"] & 1))
        for each, names in _walk(by_type.get("SHT_GNU_verdef"))
    ]
    table, spelling = by_type.get("SHT_DYNSYM"), by_type.get("SHT_GNU_versym")
    for index, symbol in enumerate(table.iter_symbols() if table is not None else ()):
        version: Any = spelling.get_symbol(index)["ndx"] if spelling is not None else 0
        view.symbols.append(
            _Symbol(
                name=symbol.name,
                binding=symbol["st_info"]["bind"].removeprefix("STB_"),
                undefined=symbol["st_shndx"] == "SHN_UNDEF",
                visible=symbol["st_other"]["visibility"] in ("STV_DEFAULT", "STV_PROTECTED"),
                absolute=symbol["st_shndx"] == "SHN_ABS",
                version=version if isinstance(version, int) else 0,
            )
        )


def _walk(section: Any) -> Iterator[Any]:
    return islice(section.iter_versions(), _MOST_RECORDS) if section is not None else iter(())


def _look_with_lief(path: str) -> list[ElfView]:
    import lief

    lief.logging.disable()
    wanted = lief.ELF.ParserConfig()
    wanted.parse_relocations = wanted.parse_symtab_symbols = wanted.parse_overlay = False
    item: Any = lief.ELF.parse(path, wanted)
    if item is None:
        raise UnparsedError
    header = item.header
    tags: dict[str, list[Any]] = {}
    for entry in item.dynamic_entries:
        name = getattr(entry.tag, "name", str(entry.tag))
        value = text(getattr(entry, _TEXTS[name])) if name in _TEXTS else entry.value
        tags.setdefault(name, []).append(value)
    view = ElfView(
        machine=header.machine_type.name.replace("I386", "386"),
        bits=32 if header.identity_class.name == "ELF32" else 64,
        byte_order="<" if header.identity_data.name == "LSB" else ">",
        flags=header.processor_flag,
        tags=tags,
        segments=[
            (getattr(each.type, "name", ""), int(each.flags), each.alignment)
            for each in item.segments
        ],
        interpreter=text(item.interpreter) if item.has_interpreter else "",
    )
    for note in item.notes:
        kind = getattr(note.type, "name", "")
        if kind == "GNU_BUILD_ID" and not view.build_id:
            view.build_id = bytes(note.description).hex()
        elif kind == "GNU_PROPERTY_TYPE_0" and not view.isa_level:
            isa = note.find(lief.ELF.NoteGnuProperty.Property.TYPE.X86_ISA)
            levels = {
                level.name for flag, level in (isa.values if isa else ()) if flag.name == "NEEDED"
            }
            view.isa_level = next((n for _, n in _ISA_LEVELS if n[-2:].upper() in levels), "")
    if view.byte_order == ">":
        view.silent = dict.fromkeys(("build_id", "isa_level"), _TURNED)
    view.needs = [
        (text(need.name), text(each.name), bool(each.flags & 2), each.other & _INDEX)
        for need in item.symbols_version_requirement
        for each in need.get_auxiliary_symbols()
    ]
    view.definitions = [
        (each.ndx, text(next(iter(each.auxiliary_symbols)).name), bool(each.flags & 1))
        for each in item.symbols_version_definition
    ]
    view.symbols = [
        _Symbol(
            name=text(symbol.name),
            binding=getattr(symbol.binding, "name", ""),
            undefined=symbol.shndx == 0,
            # STV_DEFAULT and STV_PROTECTED; LIEF's own property includes other bits of ppc64le.
            visible=symbol.other & 3 in (0, 3),
            absolute=symbol.shndx == 0xFFF1,
            version=symbol.symbol_version.value if symbol.has_version else 0,
        )
        for symbol in item.dynamic_symbols
    ]
    return [view]


def _pad(build_id: str) -> str:
    return build_id + "0" * (-len(build_id) % 8)


TABLE = Table(
    facts=FACTS,
    libraries=(
        Library(
            name="pyelftools",
            distribution="pyelftools",
            format=Format.ELF,
            look=_look_with_pyelftools,
        ),
        Library(
            name="LIEF",
            distribution="lief",
            format=Format.ELF,
            look=_look_with_lief,
            allowances={
                "build_id": Allowance(
                    reason="it counts the padding to 4 bytes as part of the note "
                    "(linkers write 8, 16 or 20 bytes)",
                    narrow=_pad,
                ),
            },
        ),
    ),
)
