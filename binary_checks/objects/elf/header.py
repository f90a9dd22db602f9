"""Reads the ELF header: class, byte order, machine, and where the two tables of headers lie.

Architectures are spelled as platform tags spell them.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from binary_checks.errors import MalformedError
from binary_checks.objects.limits import LimitedSource

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
