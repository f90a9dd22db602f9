"""Read the headers of an ELF file (gABI chapters 4 and 5), and its bytes by their addresses."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Any, Final, NamedTuple

from binary_checks.errors import MalformedError
from binary_checks.objects.byte_source import LimitedSource, merge

ET_REL: Final = 1
ET_EXEC: Final = 2
ET_DYN: Final = 3
PT_LOAD: Final = 1
PT_DYNAMIC: Final = 2
PT_INTERP: Final = 3
PT_NOTE: Final = 4
PT_TLS: Final = 7
PT_GNU_STACK: Final = 0x6474E551
PT_GNU_RELRO: Final = 0x6474E552
PT_GNU_PROPERTY: Final = 0x6474E553
PF_X: Final = 1
PF_W: Final = 2
SHT_PROGBITS: Final = 1
SHT_NOTE: Final = 7
SHT_NOBITS: Final = 8
SHT_DYNSYM: Final = 11
SHF_WRITE: Final = 1
SHF_ALLOC: Final = 2
SHF_EXECINSTR: Final = 4
EM_AMDGPU: Final = 224
EM_CUDA: Final = 190
EM_BPF: Final = 247

MAGIC: Final = b"\x7fELF"
PAGE: Final = 4096

# e_machine (EM_*), bits, byte order
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
_DEVICES = {94: "xtensa", 164: "hexagon", 190: "cuda", 224: "amdgpu", 247: "bpf", 251: "ve"}
# Calling conventions that platform tags do not mean: mask of e_flags, architectures by value.
_CALLING_CONVENTIONS = {
    "armv7l": (0x200, {0x200: "armel"}),
    "ppc64le": (3, {1: "ppc64le_elfv1"}),
    "riscv64": (6, {0: "riscv64_lp64", 2: "riscv64_lp64f", 6: "riscv64_lp64q"}),
    "loongarch64": (7, {1: "loongarch64_lp64s", 2: "loongarch64_lp64f"}),
}
# DEFAULT_STACK_PERMS in glibc's stackinfo.h
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
    names_index: int
    identification: bytes
    version: int  # e_version

    def struct(self, layout: str) -> Struct:
        """Return a structure in the file's byte order; "P" is a word of the file's class."""
        return Struct(self.byte_order + layout.replace("P", "Q" if self.bits == 64 else "I"))

    @property
    def section_struct(self) -> Struct:
        """The layout of one section header (Elf32_Shdr or Elf64_Shdr)."""
        return self.struct("IIPPPPIIPP")

    @property
    def segments_end(self) -> int:
        """The end of the program headers."""
        return self.segments_offset + self.segment_count * (56 if self.bits == 64 else 32)

    @property
    def sections_end(self) -> int:
        """The end of the section headers; 0 without any."""
        return self.sections_offset + self.section_count * self.section_struct.size


def read_header(source: LimitedSource) -> ElfHeader:
    """Read the ELF header. Raises MalformedError unless both tables of headers are in the file."""
    start = source.read(0, min(64, source.size))
    if len(start) < 16:
        raise MalformedError("the file ends within the ELF identification", len(start))
    if start[4] not in (1, 2) or start[5] not in (1, 2) or start[6] != 1:
        raise MalformedError(f"impossible ELF identification {start[4:7].hex(' ')}", 4)
    bits, order = 32 * start[4], "<>"[start[5] - 1]
    layout = Struct(order + ("HHIQQQIHHHHHH" if bits == 64 else "HHIIIIIHHHHHH"))
    if len(start) < 16 + layout.size:
        raise MalformedError("the file ends within the ELF header", len(start))
    kind, machine, version, _, segments, sections, flags, _, _, segment_count, _, count, names = (
        layout.unpack_from(start, 16)
    )
    header = ElfHeader(
        bits, order, kind, machine, flags, segments, segment_count, sections,
        count if sections else 0, names, start[:16], version,
    )  # fmt: skip
    if sections and (not count or 0xFFFF in (segment_count, names)):  # counts in section 0
        shape = header.section_struct
        first = shape.unpack(source.read(sections, shape.size))
        header = header._replace(
            segment_count=first[7] if segment_count == 0xFFFF else segment_count,
            section_count=count or first[5],
            names_index=first[6] if names == 0xFFFF else names,
        )
    source.require_end(header.segments_end, "the program headers end")
    source.require_end(header.sections_end, "the section headers end")
    return header


def architecture_of(header: ElfHeader) -> str:
    """Return the name of the file's architecture, "machine-<e_machine>" if it is unknown."""
    known = _ARCHITECTURES.get((header.machine, header.bits, header.byte_order))
    if known in _CALLING_CONVENTIONS:
        mask, names = _CALLING_CONVENTIONS[known]
        return names.get(header.flags & mask, known)
    return known or _DEVICES.get(header.machine) or f"machine-{header.machine}"


def runs_on_a_host(header: ElfHeader) -> bool:
    """Return whether the file is for a CPU that platform tags name; otherwise it is device code."""
    return (header.machine, header.bits, header.byte_order) in _ARCHITECTURES


def is_device_code(header: ElfHeader) -> bool:
    """Return whether type and OS ABI match a device, so that a damaged e_machine does not."""
    if header.machine == EM_AMDGPU:
        return header.type != ET_DYN or header.identification[7] in range(64, 67)
    if header.machine in (EM_CUDA, EM_BPF):
        return header.type != ET_DYN
    return header.machine in _DEVICES


def assumes_executable_stack(architecture: str) -> bool:
    """Return whether a file without PT_GNU_STACK gets an executable stack."""
    return architecture in _EXECUTABLE_STACK_BY_DEFAULT


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
        rows = header.struct("IIQQQQQQ").iter_unpack(table)
        return tuple(Segment(t, f, o, v, fs, ms, a) for t, f, o, v, _, fs, ms, a in rows)
    rows = header.struct("IIIIIIII").iter_unpack(table)
    return tuple(Segment(t, f, o, v, fs, ms, a) for t, o, v, _, fs, ms, f, a in rows)


class Section(NamedTuple):
    """One section header. Offsets and sizes are in bytes."""

    name: str
    type: int
    flags: int
    address: int
    offset: int
    size: int


def read_sections(source: LimitedSource, header: ElfHeader) -> tuple[Section, ...]:
    """Read all section headers, in order."""
    start, end = header.sections_offset, header.sections_end
    if not header.section_count:
        return ()
    rows = tuple(header.section_struct.iter_unpack(source.read(start, end - start)))
    names = b""
    if 0 < header.names_index < len(rows) and rows[header.names_index][1] != SHT_NOBITS:
        names = source.read(*rows[header.names_index][4:6])

    def name_at(offset: int) -> str:
        return names[offset : max(names.find(b"\0", offset, offset + 256), offset)].decode("latin1")

    return tuple(Section(name_at(row[0]), *row[1:6]) for row in rows)


def is_debug_companion(sections: tuple[Section, ...]) -> bool:
    """Return whether all loadable contents were removed, as by ``objcopy --only-keep-debug``."""
    kept = {section.type for section in sections if section.flags & SHF_ALLOC}
    return SHT_NOBITS in kept and kept <= {SHT_NOBITS, SHT_NOTE}


def find_extents(
    sections: tuple[Section, ...], names: tuple[str, ...]
) -> tuple[tuple[int, int], ...]:
    """Return start and end of the non-empty sections with these names, in file order."""
    return tuple(
        sorted(
            (each.offset, each.offset + each.size)
            for each in sections
            if each.name in names and each.type != SHT_NOBITS and each.size
        )
    )


def find_read_only(
    sections: tuple[Section, ...], others: tuple[str, ...]
) -> tuple[tuple[int, int], ...]:
    """Return the extents of sections with constants, without those whose names begin like that."""
    flags = SHF_ALLOC | SHF_WRITE | SHF_EXECINSTR
    return merge(
        (section.offset, section.offset + section.size)
        for section in sections
        if section.type == SHT_PROGBITS
        and section.flags & flags == SHF_ALLOC
        and not section.name.startswith(others)
    )


class MappedImage:
    """The file's bytes by virtual address; an address outside of every PT_LOAD is malformed."""

    def __init__(
        self, source: LimitedSource, header: ElfHeader, segments: Iterable[Segment]
    ) -> None:
        self.header, self.source = header, source
        self._loads: list[tuple[int, int, int]] = []  # address, size, offset
        for each in segments:
            if each.type != PT_LOAD or not each.file_size:
                continue
            size = each.file_size
            if each.memory_size <= size:  # whole pages are mapped, as by mmap
                end = -(-(each.address + size) // PAGE) * PAGE
                size = min(end - each.address, source.size - each.offset)
            load = (each.address, size, each.offset)
            if self._loads:  # patchelf's tables may begin in one segment and end in the next
                start, length, offset = self._loads[-1]
                if (
                    each.offset - offset == each.address - start
                    and start <= each.address <= start + length
                ):
                    load = (start, max(length, each.address + size - start), offset)
                    self._loads.pop()
            self._loads.append(load)

    def locate(self, address: int, what: str) -> tuple[int, int]:
        """Return the file offset of an address, and the number of bytes after it in its segment."""
        for start, size, offset in self._loads:
            if 0 <= address - start < size:
                return offset + address - start, size - (address - start)
        raise MalformedError(f"{what} at address {address:#x} lies in no loaded segment")

    def read(self, address: int, length: int, what: str) -> bytes:
        """Return exactly ``length`` bytes from an address. Raises MalformedError."""
        if not length:
            return b""
        offset, available = self.locate(address, what)
        if length > available:
            raise MalformedError(
                f"{what} has {length:#x} bytes, but its segment has only {available:#x} more",
                offset,
            )
        return self.source.read(offset, length)

    def unpack(self, layout: Struct, address: int, what: str) -> tuple[Any, ...]:
        """Unpack one structure at an address."""
        return layout.unpack(self.read(address, layout.size, what))
