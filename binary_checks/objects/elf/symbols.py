"""Read the dynamic segment of an ELF file, and what its entries refer to.

These are strings, versions, symbols and relocations (gABI chapter 5, "Dynamic Section").
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

from binary_checks.errors import MalformedError
from binary_checks.model import NeededVersion, Symbol, SymbolTable
from binary_checks.objects.elf.header import (
    PF_W,
    PT_DYNAMIC,
    PT_LOAD,
    SHT_DYNSYM,
    MappedImage,
    Section,
    Segment,
    architecture_of,
)
from binary_checks.objects.symbol_groups import SymbolGroups

DT_PLTRELSZ: Final = 2
DT_HASH: Final = 4
DT_STRTAB: Final = 5
DT_SYMTAB: Final = 6
DT_RELA: Final = 7
DT_RELASZ: Final = 8
DT_STRSZ: Final = 10
DT_RPATH: Final = 15
DT_REL: Final = 17
DT_RELSZ: Final = 18
DT_JMPREL: Final = 23
DT_RUNPATH: Final = 29
DT_RELRSZ: Final = 35
DT_RELR: Final = 36
DT_GNU_HASH: Final = 0x6FFFFEF5
DT_VERSYM: Final = 0x6FFFFFF0
DT_VERDEF: Final = 0x6FFFFFFC
DT_VERDEFNUM: Final = 0x6FFFFFFD
DT_VERNEED: Final = 0x6FFFFFFE
DT_VERNEEDNUM: Final = 0x6FFFFFFF
_LONGEST_REST = 1 << 16  # bytes in which a text ends that DT_STRSZ cuts
_HIDDEN = 0x8000
_VER_FLG_WEAK: Final = 2
_SHN_ABS = 0xFFF1

_Like: TypeAlias = tuple[str, str, bool, bool]
"""Library, version, and whether a symbol is weak, and hidden."""


class Dynamic:
    """The entries of PT_DYNAMIC with their strings; empty for a file without PT_DYNAMIC."""

    def __init__(self, image: MappedImage, segments: Iterable[Segment]) -> None:
        self.entries: list[tuple[int, int]] = []
        self.strings = b""
        segment = next((each for each in segments if each.type == PT_DYNAMIC), None)
        if segment is None:
            return
        layout = image.header.struct("PP")
        length = segment.file_size // layout.size * layout.size
        for tag, value in layout.iter_unpack(image.read(segment.address, length, "PT_DYNAMIC")):
            if not tag:
                break
            self.entries.append((tag, value))
        else:
            raise MalformedError("PT_DYNAMIC has no DT_NULL", segment.offset)
        self._last = dict(self.entries)  # the last of a tag counts, as in glibc
        address, size = self.value(DT_STRTAB), self.value(DT_STRSZ)
        self.strings = image.read(address, size, "DT_STRTAB")
        if self.strings[-1:] not in (b"", b"\0"):  # an editing tool stated it too short
            _, left = image.locate(address, "DT_STRTAB")
            rest = image.read(address + size, min(left - size, _LONGEST_REST), "DT_STRTAB")
            self.strings += rest.partition(b"\0")[0] + b"\0"

    def __bool__(self) -> bool:
        return bool(self.entries)

    def __contains__(self, tag: int) -> bool:
        return bool(self.entries) and tag in self._last

    def value(self, tag: int) -> int:
        """Return the value or address of the last entry with this tag; 0 if there is none."""
        return self._last.get(tag, 0) if self.entries else 0

    def texts(self, tag: int) -> tuple[str, ...]:
        """Return the strings of all entries with this tag, in order."""
        return tuple(self.text(value) for kind, value in self.entries if kind == tag)

    def text(self, offset: int) -> str:
        """Return the string at an offset of DT_STRTAB. Raises MalformedError beyond its end."""
        return self.name(offset).decode("utf-8", "backslashreplace")

    def name(self, offset: int) -> bytes:
        """Return the bytes of the string at an offset of DT_STRTAB, like `text`."""
        if offset >= len(self.strings):
            raise MalformedError(f"a string at {offset:#x}, beyond the end of DT_STRTAB")
        return self.strings[offset : self.strings.index(b"\0", offset)]

    def search_path(self, tag: int) -> tuple[str, ...]:
        """Return the elements of DT_RPATH or DT_RUNPATH; () if there is no such entry."""
        return tuple(self.text(self.value(tag)).split(":")) if tag in self else ()


class Versions(NamedTuple):
    """The version nodes that one object needs and defines."""

    needed: list[NeededVersion]
    defined: list[str]
    by_index: dict[int, tuple[str, str]]  # version index -> library and node


def read_versions(image: MappedImage, dynamic: Dynamic) -> Versions:
    """Read DT_VERNEED and DT_VERDEF (LSB Core, "Symbol Versioning"). Raises MalformedError."""
    found = Versions([], [], {0: ("", ""), 1: ("", "")})  # VER_NDX_LOCAL, VER_NDX_GLOBAL
    need, aux = image.header.struct("HHIII"), image.header.struct("IHHII")
    files = dynamic.value(DT_VERNEEDNUM) if DT_VERNEED in dynamic else 0
    for at, (_, count, file, first, _) in _follow(image, need, dynamic.value(DT_VERNEED), files):
        for _, (_, flags, index, name, _) in _follow(image, aux, at + first, count):
            library, version = dynamic.text(file), dynamic.text(name)
            found.needed.append(
                NeededVersion(library=library, version=version, weak=bool(flags & _VER_FLG_WEAK))
            )
            found.by_index[index & ~_HIDDEN] = library, version
    node, aux = image.header.struct("HHHHIII"), image.header.struct("II")
    nodes = dynamic.value(DT_VERDEFNUM) if DT_VERDEF in dynamic else 0
    for at, (_, flags, index, _, _, first, _) in _follow(
        image, node, dynamic.value(DT_VERDEF), nodes
    ):
        name = dynamic.text(image.unpack(aux, at + first, "a Verdaux")[0])
        base = flags & 1  # VER_FLG_BASE, the library itself
        found.by_index[index & ~_HIDDEN] = "", "" if base else name
        if not base:
            found.defined.append(name)
    return found


def _follow(
    image: MappedImage, layout: Struct, address: int, count: int
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield address and fields of each record; the last field is the offset to the next record."""
    for left in range(min(count, _HIDDEN), 0, -1):
        fields = image.unpack(layout, address, "a version record")
        yield address, fields
        if bool(fields[-1]) != (left > 1):  # glibc's loader follows the chain, not the count
            raise MalformedError("a chain of version records does not end at its count")
        address += fields[-1]


def count_symbols(
    image: MappedImage, dynamic: Dynamic, sections: Iterable[Section], size: int
) -> int:
    """Return the number of entries of this size in DT_SYMTAB, which PT_DYNAMIC does not state."""
    word = image.header.struct("I")
    if DT_GNU_HASH in dynamic:
        address = dynamic.value(DT_GNU_HASH)
        buckets, first, bloom, _ = image.unpack(image.header.struct("IIII"), address, "DT_GNU_HASH")
        start = address + 16 + bloom * image.header.bits // 8
        table = image.read(start, 4 * buckets, "DT_GNU_HASH")
        last = max((each for (each,) in word.iter_unpack(table)), default=0)
        if last:  # the last chain ends where DT_SYMTAB ends
            at = start + 4 * (buckets + last - first)
            entry = 0
            while not entry & 1:  # the chain is short; its segment may have hundreds of megabytes
                (entry,) = image.unpack(word, at, "a chain of DT_GNU_HASH")
                last, at = last + 1, at + word.size
            return last
    if DT_HASH in dynamic:
        layout = image.header.struct("QQ" if architecture_of(image.header) == "s390x" else "II")
        return int(image.unpack(layout, dynamic.value(DT_HASH), "DT_HASH")[1])
    counts = [
        each.size // size
        for each in sections
        if each.type == SHT_DYNSYM and each.address == dynamic.value(DT_SYMTAB)
    ]
    counts += (
        1 + (info >> _symbol_shift(image)) for _, info, _ in read_relocations(image, dynamic)
    )
    return max(counts, default=0)


def read_symbols(
    image: MappedImage, dynamic: Dynamic, versions: Versions, sections: Iterable[Section]
) -> tuple[SymbolTable, SymbolTable, Sequence[int]]:
    """Return imports, exports, and the place of each symbol's name. Raises MalformedError."""
    wide = image.header.bits == 64
    layout = image.header.struct("IBBHQQ" if wide else "IIIBBH")
    count = count_symbols(image, dynamic, sections, layout.size) if DT_SYMTAB in dynamic else 0
    table = image.read(dynamic.value(DT_SYMTAB), count * layout.size, "DT_SYMTAB")
    indices: Iterable[tuple[int]] = ((1,) for _ in range(count))
    if versioned := DT_VERSYM in dynamic:
        raw = image.read(dynamic.value(DT_VERSYM), count * 2, "DT_VERSYM")
        indices = image.header.struct("H").iter_unpack(raw)
    imports, exports, names = dict[_Like, list[bytes]](), dict[_Like, list[bytes]](), array("I")
    for row, (index,) in zip(layout.iter_unpack(table), indices, strict=True):
        place, info, other, section = row[:4] if wide else (row[0], *row[3:])
        names.append(place)
        if info < 16 or not place or (section and other & 3 not in (0, 3)):
            continue  # local, without a name, or hidden
        name, weak = dynamic.name(place), info >> 4 == 2
        image.source.charge_symbol(len(name))
        if index & ~_HIDDEN not in versions.by_index:
            raise MalformedError(f"DT_VERSYM names version {index}, which nothing defines")
        library, version = versions.by_index[index & ~_HIDDEN]
        if not section:
            imports.setdefault((library, version, weak, False), []).append(name)
        elif section != _SHN_ABS or name != version.encode():  # GNU ld adds one for each node
            hidden = versioned and index >= _HIDDEN
            exports.setdefault(("", version, weak, hidden), []).append(name)
    return _make_table(imports), _make_table(exports), names


def _make_table(groups: Mapping[_Like, Iterable[bytes]]) -> SymbolGroups:
    return SymbolGroups(
        {
            Symbol(name="", library=library, version=version, weak=weak, hidden=hidden): names
            for (library, version, weak, hidden), names in groups.items()
        }
    )


# Relocation types R_*_TPOFF and R_*_TPREL, and whether records have addends, by architecture.
THREAD_RELOCATIONS = {
    "x86_64": ((18,), True),
    "i686": ((14, 37), False),
    "aarch64": ((1030,), True),
    "armv7l": ((19,), False),
    "ppc64le": ((73,), True),
    "s390x": ((56,), True),
    "riscv64": ((11,), True),
    "loongarch64": ((11,), True),
}


def read_relocations(image: MappedImage, dynamic: Dynamic) -> Iterator[tuple[int, int, int]]:
    """Yield address, r_info and addend of each relocation of DT_RELA or DT_REL, and DT_JMPREL."""
    addends = THREAD_RELOCATIONS.get(architecture_of(image.header), ((), True))[1]
    layout = image.header.struct("PPP" if addends else "PP")
    own = (DT_RELA, DT_RELASZ) if addends else (DT_REL, DT_RELSZ)
    for table, size in (own, (DT_JMPREL, DT_PLTRELSZ)):
        if table in dynamic:
            length = dynamic.value(size) // layout.size * layout.size
            content = image.read(dynamic.value(table), length, "a relocation table")
            yield from ((*row, 0)[:3] for row in layout.iter_unpack(content))


def _symbol_shift(image: MappedImage) -> int:
    """Return the number of bits of r_info that are the type; the symbol is above them."""
    return 32 if image.header.bits == 64 else 8


def _read_packed(image: MappedImage, dynamic: Dynamic) -> Iterator[int]:
    """Yield the addresses of DT_RELR: an even word is one, an odd word a bitmap of the next."""
    layout = image.header.struct("P")
    word, place = layout.size, 0
    length = dynamic.value(DT_RELRSZ) // word * word if DT_RELR in dynamic else 0
    for (entry,) in layout.iter_unpack(image.read(dynamic.value(DT_RELR), length, "DT_RELR")):
        if entry & 1:
            yield from (place + word * bit for bit in range(8 * word - 1) if entry >> bit + 1 & 1)
            place += (8 * word - 1) * word
        else:
            yield entry
            place = entry + word


def count_code_relocations(
    image: MappedImage, segments: Iterable[Segment], dynamic: Dynamic
) -> int | None:
    """Return the number of relocations in segments that are not writable; None if unknown."""
    if architecture_of(image.header) not in THREAD_RELOCATIONS:
        return None
    kinds = (1 << _symbol_shift(image)) - 1
    places = [at for at, info, _ in read_relocations(image, dynamic) if info & kinds]
    places += _read_packed(image, dynamic)
    fixed = [each for each in segments if each.type == PT_LOAD and not each.flags & PF_W]
    return sum(
        each.address <= at < each.address + each.memory_size for each in fixed for at in places
    )


def find_initial_exec(
    image: MappedImage, dynamic: Dynamic, names: Sequence[int]
) -> tuple[str, ...] | None:
    """Return the names of thread-local variables with a fixed place; None if they are unknown."""
    types = THREAD_RELOCATIONS.get(architecture_of(image.header))
    if types is None:
        return None
    shift = _symbol_shift(image)
    rows = (info for _, info, _ in read_relocations(image, dynamic))
    found = {info >> shift for info in rows if info & ((1 << shift) - 1) in types[0]}
    return tuple(sorted({dynamic.text(names[each]) if each else "" for each in found}))
