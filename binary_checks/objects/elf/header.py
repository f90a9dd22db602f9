"""Read the headers, segments and sections of an ELF file, and its bytes by their addresses.

"gABI" is the System V Application Binary Interface, whose chapter 4, "Object Files", and chapter 5,
"Program Loading and Dynamic Linking", define ELF.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Any, Final, NamedTuple

from binary_checks.errors import MalformedError, TooLarge
from binary_checks.objects.byte_source import LimitedSource, merge

# The ELF header (gABI chapter 4, "ELF Header"): class, byte order, machine, and the offsets of both
# tables of headers. Architectures are named as in platform tags.

ET_REL: Final = 1
ET_EXEC: Final = 2
ET_DYN: Final = 3

MAGIC: Final = b"\x7fELF"
_BITS = {1: 32, 2: 64}  # EI_CLASS: ELFCLASS32, ELFCLASS64
_BYTE_ORDER = {1: "<", 2: ">"}  # EI_DATA: ELFDATA2LSB, ELFDATA2MSB
# The fields after e_ident, from byte 16: e_type, e_machine, e_version, e_entry, e_phoff, e_shoff,
# e_flags, then sizes and counts of 16 bits.
_HEADER = {32: "HHIIIIIHHHHHH", 64: "HHIQQQIHHHHHH"}
_SEGMENT_SIZE = {32: 32, 64: 56}  # bytes of a program header
_SECTION_SIZE = {32: 40, 64: 64}  # bytes of a section header
# sh_name, sh_type, sh_flags, sh_addr, sh_offset, sh_size, sh_link, sh_info, sh_addralign,
# sh_entsize
_SECTION = {32: "IIIIIIIIII", 64: "IIQQQQIIQQ"}
_MOST_SEGMENTS = 1 << 16  # program headers; real libraries have some ten
_MOST_SECTIONS = 1 << 17  # object files with one section per function have tens of thousands
# Value of e_phnum if the number of program headers is in sh_info of section header 0.
_PN_XNUM = 0xFFFF
_SHN_XINDEX = 0xFFFF  # value of e_shstrndx if the index is in sh_link of section header 0

# e_machine (EM_*, gABI chapter 4, "ELF Header"), bits, byte order
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
# e_machine of files for processors that a host drives
_DEVICES = {
    94: "xtensa",  # EM_XTENSA, for microcontrollers
    164: "hexagon",  # EM_QDSP6, Qualcomm's signal processors
    190: "cuda",  # EM_CUDA
    224: "amdgpu",  # EM_AMDGPU
    247: "bpf",  # EM_BPF, programs for the Linux kernel
    251: "ve",  # EM_VE, NEC's vector engines
}
_CALLING_CONVENTIONS = {
    # e_machine and byte order: (mask of e_flags, name of the architecture by value)
    # EF_ARM_ABI_FLOAT_SOFT (ELF for the Arm Architecture): floating point in integer registers
    (40, "<"): (0x200, {0x200: "armel"}),
    # EF_PPC64_ABI (64-bit ELF V2 ABI); 0 states no version
    (21, "<"): (3, {1: "ppc64le_elfv1"}),
    # EF_RISCV_FLOAT_ABI (RISC-V psABI); 4 is the platform tag's, double precision in registers
    (243, "<"): (6, {0: "riscv64_lp64", 2: "riscv64_lp64f", 6: "riscv64_lp64q"}),
    # EF_LOONGARCH_ABI_MODIFIER_MASK (LoongArch psABI); 3 is the platform tag's
    (258, "<"): (7, {1: "loongarch64_lp64s", 2: "loongarch64_lp64f"}),
}
"""Calling conventions that platform tags do not mean, as part of the architecture's name."""
_WITH_CONVENTIONS = frozenset({"armv7l", "ppc64le", "riscv64", "loongarch64"})

# Architectures for which glibc makes the stack executable if a file has no PT_GNU_STACK
# (DEFAULT_STACK_PERMS in its stackinfo.h; the kernel agrees for these). aarch64, ppc64, ppc64le,
# riscv and loongarch default to a stack that is not executable.
_EXECUTABLE_STACK_BY_DEFAULT = frozenset(
    {"x86_64", "x32", "i686", "armv7l", "armv7b", "armel", "ppc", "s390", "s390x"}
    | {"mips", "mipsel", "mips64", "mips64el", "sparc", "sparc64"}
)


class ElfHeader(NamedTuple):
    """The fields of the ELF header, with counts that exceed 16 bits already resolved."""

    bits: int
    byte_order: str  # "<" or ">", as in the struct module
    type: int
    machine: int
    flags: int
    segments_offset: int
    segment_count: int
    sections_offset: int  # 0 if the file has no section headers
    section_count: int
    names_index: int  # index of the section that contains the names of sections
    identification: bytes  # e_ident: a loader also looks at the bytes after class and byte order
    version: int  # e_version

    @property
    def segments_end(self) -> int:
        """The end of the program headers, in bytes from the start of the file."""
        return self.segments_offset + self.segment_count * _SEGMENT_SIZE[self.bits]

    @property
    def sections_end(self) -> int:
        """The end of the section headers, in bytes from the start; 0 without section headers."""
        return self.sections_offset + self.section_count * _SECTION_SIZE[self.bits]

    def struct(self, layout: str) -> Struct:
        """Return a compiled structure in the file's byte order."""
        return Struct(self.byte_order + layout)

    @property
    def section_struct(self) -> Struct:
        """The layout of one section header (Elf32_Shdr or Elf64_Shdr)."""
        return self.struct(_SECTION[self.bits])


def read_header(source: LimitedSource) -> ElfHeader:
    """Read the ELF header, and verify that both tables of headers lie inside the file.

    Raises MalformedError, or TooLarge if a table has more entries than the limit.
    """
    start = source.read(0, min(64, source.size))  # bytes of Elf64_Ehdr; Elf32_Ehdr has 52
    if len(start) < 16 or start[:4] != MAGIC:  # EI_NIDENT: e_ident has 16 bytes
        raise MalformedError("the file ends within the ELF identification", len(start))
    # EI_CLASS, EI_DATA, and EI_VERSION, which must be EV_CURRENT
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
    """Resolve counts that do not fit into 16 bits (gABI chapter 4, "ELF Header").

    They are in section header 0: e_phnum in sh_info, e_shnum in sh_size, e_shstrndx in sh_link.
    """
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
    """Verify that both tables of headers lie inside the file and within the limits on memory."""
    for noun, end in (("program", header.segments_end), ("section", header.sections_end)):
        if end > (size := source.size):
            raise MalformedError(
                f"the {noun} headers end at byte {end:#x}, but the file has only {size:#x} bytes",
                size,
            )
    source.require_at_most(header.segment_count, _MOST_SEGMENTS, "program headers")
    source.require_at_most(header.section_count, _MOST_SECTIONS, "section headers")


def architecture_of(header: ElfHeader) -> str:
    """Return the name of the file's architecture, "machine-<e_machine>" if it is unknown."""
    machine = header.machine
    known = _ARCHITECTURES.get((machine, header.bits, header.byte_order))
    if known in _WITH_CONVENTIONS:
        mask, names = _CALLING_CONVENTIONS[machine, header.byte_order]
        return names.get(header.flags & mask, known)
    return known or _DEVICES.get(machine) or f"machine-{machine}"


def runs_on_a_host(header: ElfHeader) -> bool:
    """Return whether the file is for a CPU that platform tags name; otherwise it is device code."""
    return (header.machine, header.bits, header.byte_order) in _ARCHITECTURES


def is_known_device(header: ElfHeader) -> bool:
    """Return whether the file is for a device whose code is known to be shipped in packages."""
    return header.machine in _DEVICES


def assumes_executable_stack(architecture: str) -> bool:
    """Return whether a file without PT_GNU_STACK gets an executable stack."""
    return architecture in _EXECUTABLE_STACK_BY_DEFAULT


# The program headers (gABI chapter 5, "Program Header"): parts that a loader maps, with their
# addresses.

PT_LOAD: Final = 1
PT_DYNAMIC: Final = 2
PT_INTERP: Final = 3
PT_NOTE: Final = 4
PT_PHDR: Final = 6
PT_TLS: Final = 7
# The following are extensions: the first three in LSB Core, "Program Header", the last one in the
# "Linux Extensions to gABI".
PT_GNU_EH_FRAME: Final = 0x6474E550
PT_GNU_STACK: Final = 0x6474E551
PT_GNU_RELRO: Final = 0x6474E552
PT_GNU_PROPERTY: Final = 0x6474E553

PF_X: Final = 1
PF_W: Final = 2
PF_R: Final = 4


class Segment(NamedTuple):
    """One program header. Offsets and sizes are in bytes."""

    type: int
    flags: int
    offset: int
    address: int
    file_size: int
    memory_size: int
    alignment: int


def read_segments(source: LimitedSource, header: ElfHeader) -> tuple[Segment, ...]:
    """Read all program headers, in order."""
    start, end = header.segments_offset, header.segments_end
    table = source.read(start, end - start)
    if header.bits == 64:
        # Elf64_Phdr: p_type, p_flags, p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_align
        rows = header.struct("IIQQQQQQ").iter_unpack(table)
        return tuple(Segment(t, f, o, v, fs, ms, a) for t, f, o, v, _, fs, ms, a in rows)
    # Elf32_Phdr has p_flags in seventh place, before p_align
    rows = header.struct("IIIIIIII").iter_unpack(table)
    return tuple(Segment(t, f, o, v, fs, ms, a) for t, o, v, _, fs, ms, f, a in rows)


# The section headers (gABI chapter 4, "Sections"). They may be missing: no loader reads them.

SHT_PROGBITS: Final = 1
SHT_NOTE: Final = 7
SHT_NOBITS: Final = 8
SHT_DYNSYM: Final = 11
SHF_WRITE: Final = 1
SHF_ALLOC: Final = 2
SHF_EXECINSTR: Final = 4

_MOST_NAMES = 1 << 26
"""Limit on the bytes of section names; the largest libraries have some thousand."""


class Section(NamedTuple):
    """One section header. Offsets and sizes are in bytes."""

    name: str
    type: int
    flags: int
    address: int
    offset: int
    size: int


def read_sections(source: LimitedSource, header: ElfHeader) -> tuple[Section, ...]:
    """Read all section headers, in order.

    Raises MalformedError if the sections' names lie outside the file, TooLarge if they exceed the
    limit.
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
    """Return the contents of the section with sections' names (e_shstrndx); b"" without it."""
    # SHN_UNDEF: sections have no names
    if header.names_index == 0 or header.names_index >= len(rows):
        return b""
    _, kind, _, _, offset, size = rows[header.names_index][:6]
    if kind == SHT_NOBITS:
        return b""
    if offset + size > source.size:
        raise MalformedError("the sections' names lie beyond the end of the file", source.size)
    source.require_at_most(size, _MOST_NAMES, "bytes of section names")
    return source.read(offset, size)


def _name_at(names: bytes, offset: int) -> str:
    # Names longer than 256 bytes are read as "": the names that we look for are shorter.
    end = names.find(b"\0", offset, offset + 256)
    return names[offset : end if end >= 0 else offset].decode("latin-1")


def is_debug_companion(sections: tuple[Section, ...]) -> bool:
    """Return whether all loadable contents were removed, as by ``objcopy --only-keep-debug``."""
    kept = {section.type for section in sections if section.flags & SHF_ALLOC}
    return SHT_NOBITS in kept and kept <= {SHT_NOBITS, SHT_NOTE}


def has_debug_information(sections: tuple[Section, ...]) -> bool:
    """Return whether .debug_info (or compressed, .zdebug_info) has contents."""
    # GNU's tools named compressed sections ".z…" before the gABI had SHF_COMPRESSED, which keeps
    # the name.
    return any(
        section.name in (".debug_info", ".zdebug_info")
        and section.type != SHT_NOBITS
        and section.size > 0
        for section in sections
    )


def measure_debug_information(sections: tuple[Section, ...]) -> int:
    """Return the total size of DWARF sections in the file, counting each byte once."""
    extents = merge(
        (section.offset, section.offset + section.size)
        for section in sections
        if section.name.startswith((".debug_", ".zdebug_")) and section.type != SHT_NOBITS
    )
    return sum(end - start for start, end in extents)


def find_extents(
    sections: tuple[Section, ...], names: tuple[str, ...]
) -> tuple[tuple[int, int], ...]:
    """Return start and end of the non-empty sections with these names, in file order."""
    found = (
        (section.offset, section.offset + section.size)
        for section in sections
        if section.name in names and section.type != SHT_NOBITS and section.size
    )
    return tuple(sorted(found))


def find_read_only(
    sections: tuple[Section, ...], others: tuple[str, ...]
) -> tuple[tuple[int, int], ...]:
    """Return start and end of sections that are loaded, but neither writable nor executable.

    Sections whose names begin with one of ``others`` are left out; overlapping sections are joined.
    """
    flags = SHF_ALLOC | SHF_WRITE | SHF_EXECINSTR
    return merge(
        (section.offset, section.offset + section.size)
        for section in sections
        if section.type == SHT_PROGBITS
        and section.flags & flags == SHF_ALLOC
        and not section.name.startswith(others)
    )


# The bytes of an ELF file, at the addresses to which a loader maps them (gABI chapter 5, "Program
# Loading").

_BLOCK = 16 * 1024
"""Bytes read at once from a table whose length only becomes known while reading."""
_PAGE = 4096  # bytes of the smallest page


class MappedImage:
    """The file's bytes by virtual address; an address outside of every PT_LOAD is malformed."""

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
        """Return the file offset of an address, and the number of bytes after it in its segment."""
        for start, size, offset in self._loads:
            distance = address - start
            if 0 <= distance < size:
                return offset + distance, size - distance
        raise MalformedError(f"{what} at address {address:#x} lies in no loaded segment")

    def require(self, address: int, length: int, what: str) -> int:
        """Return the file offset of an address, and require ``length`` bytes there.

        Raises MalformedError if the segment has fewer.
        """
        offset, available = self.locate(address, what)
        if length > available:
            raise MalformedError(
                f"{what} has {length:#x} bytes, but its segment has only {available:#x} more",
                offset,
            )
        return offset

    def read(self, address: int, length: int, what: str, most: int = 0) -> bytes:
        """Return exactly ``length`` bytes from an address, which must be contiguous in the file.

        Raises MalformedError, or TooLarge for more than ``most`` bytes (0: no limit).
        """
        if not length:
            return b""
        offset = self.require(address, length, what)
        if 0 < (most := self.source.limit(most)) < length:
            raise TooLarge(f"{what} has {length} bytes; at most {most} are read")
        return self.source.read(offset, length)

    def unpack(self, layout: Struct, address: int, what: str) -> tuple[Any, ...]:
        """Unpack one structure; following bytes are read ahead, to make walking a chain cheap."""
        start = address - self._block_start
        if start < 0 or start + layout.size > len(self._block):
            _, available = self.locate(address, what)
            self._block = self.read(address, max(min(available, _BLOCK), layout.size), what)
            self._block_start = address
            start = 0
        return layout.unpack_from(self._block, start)


def _join(loads: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """Join each (address, size, offset) with the next if both are contiguous in memory and file.

    patchelf moves the string table to segments that it adds, and the table may begin in one of
    them and end in the next (``semgrep-core`` of semgrep 1.185.0, which runs). A loader does not
    compare tables with segments, only with memory.
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
    """Return the number of file bytes mapped for a segment: whole pages, as by mmap.

    patchelf has left PT_DYNAMIC after the end of its segment, but in the same page (``clp`` of
    casadi 3.8.2, which runs). If the segment is larger in memory than in the file, the remaining
    bytes of the page are zeroed instead, so they do not count.
    """
    if segment.memory_size > segment.file_size:
        return segment.file_size
    end = -(-(segment.address + segment.file_size) // _PAGE) * _PAGE
    return min(end - segment.address, size - segment.offset)
