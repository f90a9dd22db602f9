"""Reads an ELF file's headers, its segments and sections, and its bytes by their addresses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Any, Final, NamedTuple

from binary_checks.errors import MalformedError, TooLarge
from binary_checks.objects.byte_source import LimitedSource, merge

# The ELF header: class, byte order, machine, and where the two tables of headers lie.
#
# Architectures are spelled as platform tags spell them.

ET_REL: Final = 1
ET_EXEC: Final = 2
ET_DYN: Final = 3

MAGIC: Final = b"\x7fELF"
_BITS = {1: 32, 2: 64}
_BYTE_ORDER = {1: "<", 2: ">"}
_HEADER = {32: "HHIIIIIHHHHHH", 64: "HHIQQQIHHHHHH"}
_SEGMENT_SIZE = {32: 32, 64: 56}
_SECTION_SIZE = {32: 40, 64: 64}
_SECTION = {32: "IIIIIIIIII", 64: "IIQQQQIIQQ"}
_MOST_SEGMENTS = 1 << 16
_MOST_SECTIONS = 1 << 17  # object files with a section for each function have tens of thousands
_PN_XNUM = 0xFFFF  # e_phnum when there are more: the number stands in section header 0
_SHN_XINDEX = 0xFFFF  # e_shstrndx, likewise

_ARCHITECTURES = {
    (2, 32, ">"): "sparc",
    (3, 32, "<"): "i686",
    (8, 32, "<"): "mipsel",
    (8, 32, ">"): "mips",
    (8, 64, "<"): "mips64el",
    (8, 64, ">"): "mips64",
    (20, 32, ">"): "ppc",
    (21, 64, "<"): "ppc64le",
    (21, 64, ">"): "ppc64",
    (22, 32, ">"): "s390",
    (22, 64, ">"): "s390x",
    (40, 32, "<"): "armv7l",
    (40, 32, ">"): "armv7b",
    (43, 64, ">"): "sparc64",
    (50, 64, "<"): "ia64",
    (62, 32, "<"): "x32",
    (62, 64, "<"): "x86_64",
    (183, 32, "<"): "aarch64_ilp32",
    (183, 64, "<"): "aarch64",
    (183, 64, ">"): "aarch64_be",
    (243, 32, "<"): "riscv32",
    (243, 64, "<"): "riscv64",
    (258, 32, "<"): "loongarch32",
    (258, 64, "<"): "loongarch64",
}
_DEVICES = {
    94: "xtensa",
    164: "hexagon",
    190: "cuda",
    224: "amdgpu",
    247: "bpf",
    251: "ve",
}
_EM_ARM = 40
_EF_ARM_ABI_FLOAT_SOFT = 0x200

# What glibc assumes of a file without PT_GNU_STACK (DEFAULT_STACK_PERMS of its stackinfo.h; the
# kernel agrees on these). aarch64, ppc64, ppc64le, riscv and loongarch assume the opposite.
_EXECUTABLE_STACK_BY_DEFAULT = frozenset(
    {"x86_64", "x32", "i686", "armv7l", "armv7b", "armel", "ppc", "s390", "s390x"}
    | {"mips", "mipsel", "mips64", "mips64el", "sparc", "sparc64"}
)


class ElfHeader(NamedTuple):
    """What the ELF header says, with the overflow rules of its counts resolved."""

    bits: int
    byte_order: str  # as struct spells it
    type: int
    machine: int
    flags: int
    segments_offset: int
    segment_count: int
    sections_offset: int  # 0: the file has no section headers
    section_count: int
    names_index: int  # of the section that holds the sections' names
    identification: bytes  # e_ident, of which a loader also looks at what follows class and order
    version: int  # e_version

    @property
    def segments_end(self) -> int:
        """Where the program headers end, in bytes from the start of the file."""
        return self.segments_offset + self.segment_count * _SEGMENT_SIZE[self.bits]

    @property
    def sections_end(self) -> int:
        """Where the section headers end; 0 when there are none."""
        return self.sections_offset + self.section_count * _SECTION_SIZE[self.bits]

    def struct(self, layout: str) -> Struct:
        """A compiled structure in the file's byte order."""
        return Struct(self.byte_order + layout)

    @property
    def section_struct(self) -> Struct:
        """One section header."""
        return self.struct(_SECTION[self.bits])


def read_header(source: LimitedSource) -> ElfHeader:
    """Read and verify the ELF header and the extent of both tables.

    Raises MalformedError, or TooLarge where they are too long.
    """
    start = source.read(0, min(64, source.size))
    if len(start) < 16 or start[:4] != MAGIC:
        raise MalformedError("the file ends within the ELF identification", len(start))
    if start[4] not in _BITS or start[5] not in _BYTE_ORDER or start[6] != 1:
        raise MalformedError(f"impossible ELF identification {start[4:7].hex(' ')}", 4)
    bits, byte_order = _BITS[start[4]], _BYTE_ORDER[start[5]]
    layout = Struct(byte_order + _HEADER[bits])
    if len(start) < 16 + layout.size:
        raise MalformedError("the file ends within the ELF header", len(start))
    fields = layout.unpack_from(start, 16)
    type_, machine, version, _, segments, sections, flags = fields[:7]
    _, segment_size, segment_count, section_size, section_count, names_index = fields[7:]
    header = ElfHeader(
        bits, byte_order, type_, machine, flags,
        segments if segment_count else 0, segment_count,
        sections, section_count if sections else 0, names_index, start[:16], version,
    )  # fmt: skip
    if segment_count and segment_size != _SEGMENT_SIZE[bits]:
        raise MalformedError(f"program headers of {segment_size} bytes each", 16)
    if sections and section_size != _SECTION_SIZE[bits]:
        raise MalformedError(f"section headers of {section_size} bytes each", 16)
    header = _with_large_counts(source, header)
    _verify_extent(header, source)
    return header


def _with_large_counts(source: LimitedSource, header: ElfHeader) -> ElfHeader:
    """Take counts that do not fit into 16 bits from section header 0 (gABI, chapter 4)."""
    overflows = header.section_count == 0 or _PN_XNUM in (header.segment_count, header.names_index)
    if not header.sections_offset or not overflows:
        return header
    layout = header.section_struct
    if header.sections_offset + layout.size > source.size:
        raise MalformedError("the section headers lie beyond the end of the file", 16)
    first = layout.unpack(source.read(header.sections_offset, layout.size))
    return header._replace(
        segment_count=first[7] if header.segment_count == _PN_XNUM else header.segment_count,
        section_count=header.section_count or first[5],
        names_index=first[6] if header.names_index == _SHN_XINDEX else header.names_index,
    )


def _verify_extent(header: ElfHeader, source: LimitedSource) -> None:
    """Also bounds the memory that the tables will take."""
    for noun, end in (("program", header.segments_end), ("section", header.sections_end)):
        if end > (size := source.size):
            raise MalformedError(
                f"the {noun} headers end at byte {end:#x}, the file has {size:#x} bytes", size
            )
    source.refuse_more(header.segment_count, _MOST_SEGMENTS, "program headers")
    source.refuse_more(header.section_count, _MOST_SECTIONS, "section headers")


def architecture_of(header: ElfHeader) -> str:
    """The one spelling of the file's architecture; "machine-<e_machine>" where there is none."""
    machine = header.machine
    if machine == _EM_ARM and header.flags & _EF_ARM_ABI_FLOAT_SOFT:
        return "armel"  # another calling convention than what tags call armv7l
    known = _ARCHITECTURES.get((machine, header.bits, header.byte_order))
    return known or _DEVICES.get(machine) or f"machine-{machine}"


def runs_on_a_host(header: ElfHeader) -> bool:
    """Whether a CPU that platform tags know runs it; all else is code for some device."""
    return (header.machine, header.bits, header.byte_order) in _ARCHITECTURES


def is_known_device(header: ElfHeader) -> bool:
    """Whether it is for a device whose files are known to lie in packages."""
    return header.machine in _DEVICES


def assumes_executable_stack(architecture: str) -> bool:
    """Whether a file without PT_GNU_STACK gets an executable stack."""
    return architecture in _EXECUTABLE_STACK_BY_DEFAULT


# The program headers, which say what a loader maps, and where.

PT_LOAD: Final = 1
PT_DYNAMIC: Final = 2
PT_INTERP: Final = 3
PT_NOTE: Final = 4
PT_PHDR: Final = 6
PT_TLS: Final = 7
PT_GNU_EH_FRAME: Final = 0x6474E550
PT_GNU_STACK: Final = 0x6474E551
PT_GNU_RELRO: Final = 0x6474E552
PT_GNU_PROPERTY: Final = 0x6474E553

PF_X: Final = 1
PF_W: Final = 2
PF_R: Final = 4


class Segment(NamedTuple):
    """One program header."""

    type: int
    flags: int
    offset: int
    address: int
    file_size: int
    memory_size: int
    alignment: int


def read_segments(source: LimitedSource, header: ElfHeader) -> tuple[Segment, ...]:
    """Read every program header, in order."""
    start, end = header.segments_offset, header.segments_end
    table = source.read(start, end - start)
    if header.bits == 64:
        rows = header.struct("IIQQQQQQ").iter_unpack(table)
        return tuple(Segment(t, f, o, v, fs, ms, a) for t, f, o, v, _, fs, ms, a in rows)
    rows = header.struct("IIIIIIII").iter_unpack(table)
    return tuple(Segment(t, f, o, v, fs, ms, a) for t, o, v, _, fs, ms, f, a in rows)


# The section headers, which may be missing: no loader looks at them.

SHT_PROGBITS: Final = 1
SHT_NOTE: Final = 7
SHT_NOBITS: Final = 8
SHT_DYNSYM: Final = 11
SHF_WRITE: Final = 1
SHF_ALLOC: Final = 2
SHF_EXECINSTR: Final = 4

_MOST_NAMES = 1 << 26
"""Bytes of section names that are read; those of the largest libraries have some thousand."""


class Section(NamedTuple):
    """One section header."""

    name: str
    type: int
    flags: int
    address: int
    offset: int
    size: int


def read_sections(source: LimitedSource, header: ElfHeader) -> tuple[Section, ...]:
    """Read every section header, in order.

    Raises MalformedError where names lie outside, TooLarge where they are too long.
    """
    start, end = header.sections_offset, header.sections_end
    if not header.section_count:
        return ()
    rows = tuple(header.section_struct.iter_unpack(source.read(start, end - start)))
    names = _read_names(source, header, rows)
    return tuple(
        Section(_name_at(names, row[0]), row[1], row[2], row[3], row[4], row[5]) for row in rows
    )


def _read_names(
    source: LimitedSource, header: ElfHeader, rows: tuple[tuple[int, ...], ...]
) -> bytes:
    if header.names_index == 0 or header.names_index >= len(rows):
        return b""
    _, kind, _, _, offset, size = rows[header.names_index][:6]
    if kind == SHT_NOBITS:
        return b""
    if offset + size > source.size:
        raise MalformedError("the sections' names lie beyond the end of the file", source.size)
    source.refuse_more(size, _MOST_NAMES, "bytes of section names")
    return source.read(offset, size)


def _name_at(names: bytes, offset: int) -> str:
    end = names.find(b"\0", offset, offset + 256)  # none of the names that count is longer
    return names[offset : end if end >= 0 else offset].decode("latin-1")


def is_debug_companion(sections: tuple[Section, ...]) -> bool:
    """Whether all that would be loaded is gone, as ``objcopy --only-keep-debug`` leaves it."""
    kept = {section.type for section in sections if section.flags & SHF_ALLOC}
    return SHT_NOBITS in kept and kept <= {SHT_NOBITS, SHT_NOTE}


def has_debug_information(sections: tuple[Section, ...]) -> bool:
    """Whether DWARF's main section is there with contents, compressed or not."""
    return any(
        section.name in (".debug_info", ".zdebug_info")
        and section.type != SHT_NOBITS
        and section.size > 0
        for section in sections
    )


def measure_debug_information(sections: tuple[Section, ...]) -> int:
    """The bytes of the file that sections of DWARF take, each byte counted once."""
    extents = merge(
        (section.offset, section.offset + section.size)
        for section in sections
        if section.name.startswith((".debug_", ".zdebug_")) and section.type != SHT_NOBITS
    )
    return sum(end - start for start, end in extents)


def find_extents(
    sections: tuple[Section, ...], names: tuple[str, ...]
) -> tuple[tuple[int, int], ...]:
    """Start and end of the sections of these names that have contents, in file order."""
    found = (
        (section.offset, section.offset + section.size)
        for section in sections
        if section.name in names and section.type != SHT_NOBITS and section.size
    )
    return tuple(sorted(found))


def find_read_only(
    sections: tuple[Section, ...], others: tuple[str, ...]
) -> tuple[tuple[int, int], ...]:
    """Start and end of what is loaded, neither written nor run, but sections whose names begin so.

    Sections that claim the same bytes are one.
    """
    flags = SHF_ALLOC | SHF_WRITE | SHF_EXECINSTR
    return merge(
        (section.offset, section.offset + section.size)
        for section in sections
        if section.type == SHT_PROGBITS
        and section.flags & flags == SHF_ALLOC
        and not section.name.startswith(others)
    )


# The bytes of an ELF file at the addresses where a loader maps them.

_BLOCK = 16 * 1024
"""What is read at once where a table's length is known only by walking it."""
_PAGE = 4096


class MappedImage:
    """The file's bytes by the address they are mapped at; what no segment holds is malformed."""

    __slots__ = ("_block", "_block_start", "_loads", "header", "path", "source")

    def __init__(
        self, path: str, source: LimitedSource, header: ElfHeader, segments: Iterable[Segment]
    ) -> None:
        self.path = path
        self.header = header
        self.source = source
        loads = (s for s in segments if s.type == PT_LOAD and s.file_size)
        self._loads = tuple(
            _join((s.address, _mapped_size(s, source.size), s.offset) for s in loads)
        )
        self._block = b""
        self._block_start = 0

    def locate(self, address: int, what: str) -> tuple[int, int]:
        """The file offset of an address, and how many bytes follow it in its segment."""
        for start, size, offset in self._loads:
            distance = address - start
            if 0 <= distance < size:
                return offset + distance, size - distance
        raise MalformedError(f"{what} at address {address:#x} lies in no loaded segment")

    def demand(self, address: int, length: int, what: str) -> int:
        """The file offset of an address that so many bytes follow. Raises MalformedError."""
        offset, available = self.locate(address, what)
        if length > available:
            raise MalformedError(
                f"{what} has {length:#x} bytes, its segment only {available:#x} more", offset
            )
        return offset

    def read(self, address: int, length: int, what: str, most: int = 0) -> bytes:
        """Exactly length bytes from the address on, which lie together in the file too.

        Raises MalformedError, or TooLarge for more than ``most``, if that is not 0.
        """
        if not length:
            return b""
        offset = self.demand(address, length, what)
        if 0 < (most := self.source.limit(most)) < length:
            raise TooLarge(f"{what} has {length} bytes; at most {most} are read")
        return self.source.read(offset, length)

    def unpack(self, layout: Struct, address: int, what: str) -> tuple[Any, ...]:
        """One small structure; neighbours are read along, so that walking a chain stays cheap."""
        start = address - self._block_start
        if start < 0 or start + layout.size > len(self._block):
            _, available = self.locate(address, what)
            self._block = self.read(address, max(min(available, _BLOCK), layout.size), what)
            self._block_start = address
            start = 0
        return layout.unpack_from(self._block, start)


def _join(loads: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """Join each (address, size, offset) with the next where that goes on in memory and file.

    patchelf's new first segment ends inside the string table that it moved down (semgrep 1.185.0's
    ``semgrep-core``, which runs): a loader knows no end of a table but that of memory.
    """
    held: tuple[int, int, int] | None = None
    for load in loads:
        if held and held[2] - held[0] == load[2] - load[0] and 0 <= load[0] - held[0] <= held[1]:
            held = (held[0], max(held[1], load[0] - held[0] + load[1]), held[2])
        else:
            if held:
                yield held
            held = load
    if held:
        yield held


def _mapped_size(segment: Segment, size: int) -> int:
    """How many bytes of the file a kernel maps for a segment: whole pages, as mmap does.

    patchelf has left PT_DYNAMIC behind the end of its segment, but in its page (casadi 3.8.2's
    ``clp``, which runs). Where memory goes on after the file's bytes, the rest is zeroed.
    """
    if segment.memory_size > segment.file_size:
        return segment.file_size
    end = -(-(segment.address + segment.file_size) // _PAGE) * _PAGE
    return min(end - segment.address, size - segment.offset)
