"""Reads the headers, sections and small directories of a PE image, and its bytes by address."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple

from binary_checks.errors import MalformedError, TooLarge
from binary_checks.objects.byte_source import LimitedSource, merge

# The headers: machine, versions, flags and directories.
#
# Architectures are spelled as those of other formats are.

MAGIC: Final = b"MZ"

IMAGE_FILE_RELOCS_STRIPPED: Final = 0x1
IMAGE_FILE_EXECUTABLE_IMAGE: Final = 0x2
IMAGE_FILE_DLL: Final = 0x2000
IMAGE_SCN_CNT_INITIALIZED_DATA: Final = 0x40
IMAGE_SCN_MEM_EXECUTE: Final = 0x20000000
IMAGE_SCN_MEM_WRITE: Final = 0x80000000
IMAGE_SCN_MEM_ACCESS: Final = 0xE0000000  # to read, to write or to run

EXPORT: Final = 0
IMPORT: Final = 1
SECURITY: Final = 4
DEBUG: Final = 6
TLS: Final = 9
LOAD_CONFIG: Final = 10
ADDRESSES: Final = 12
DELAY_IMPORT: Final = 13
CLR: Final = 14
DIRECTORY_NAMES: Final = (
    "exports", "imports", "resources", "exceptions", "signatures", "base relocations",
    "debug information", "architecture", "the global pointer", "thread-local storage",
    "the load configuration", "bound imports", "import addresses", "delay imports", ".NET",
    "reserved use",
)  # fmt: skip

_DOS_HEADER = 64
_FILE = Struct("<HHIIIHH")
SECTION: Final = Struct("<8sIIIIIIHHI")
_MOST_DIRECTORIES = 16
_MOST_SECTIONS = 256  # real images have some dozens
_SYMBOL_SIZE = 18

# IMAGE_OPTIONAL_HEADER up to NumberOfRvaAndSizes: magic, linker (2), entry point, image base,
# alignments (2), subsystem version (2), sizes of image and headers, subsystem, DLL
# characteristics, directories.
_PE32 = Struct("<HBB 12x I 8x III 8x HH 4x II 4x HH 20x I".replace(" ", ""))
_PE64 = Struct("<HBB 12x I 4x QII 8x HH 4x II 4x HH 36x I".replace(" ", ""))
_LAYOUTS = {0x10B: (32, _PE32), 0x20B: (64, _PE64)}

_ARCHITECTURES = {
    0x014C: "i686",
    0x01C0: "armel",
    0x01C4: "armv7l",
    0x0200: "ia64",
    0x0EBC: "ebc",
    0x5032: "riscv32",
    0x5064: "riscv64",
    0x6232: "loongarch32",
    0x6264: "loongarch64",
    0x8664: "x86_64",
    0xAA64: "aarch64",
}
_HYBRIDS = {"x86_64": "arm64ec", "aarch64": "arm64x"}


class PeHeader(NamedTuple):
    """What the headers say."""

    signature: int  # where it lies in the file
    bits: int
    machine: int
    characteristics: int
    linker_version: tuple[int, int]
    entry_point: int  # address; 0: there is none
    image_base: int
    section_alignment: int
    file_alignment: int
    subsystem_version: tuple[int, int]
    image_size: int
    headers_size: int
    subsystem: int
    dll_characteristics: int
    directories: tuple[tuple[int, int], ...]  # (address, size), 16 of them; (0, 0) is absent
    directory_count: int
    uncounted_directories: tuple[int, ...]  # numbers of those that only the header's size admits
    optional_offset: int  # of the optional header
    sections_offset: int
    section_count: int
    strings_offset: int  # of the COFF string table; 0: there is none

    @property
    def sections_end(self) -> int:
        """Where the section headers end, in bytes from the start of the file."""
        return self.sections_offset + self.section_count * SECTION.size


def find_signature(source: LimitedSource) -> int:
    """Where the PE signature lies; 0 for what is no PE image: a DOS program, a text."""
    if source.size < _DOS_HEADER:
        return 0
    start = int.from_bytes(source.read(60, 4), "little")
    if start + 4 > source.size or source.read(start, 4) != b"PE\0\0":
        return 0
    return start


def read_header(source: LimitedSource, signature: int) -> PeHeader:
    """Read the file header, the optional header and the directories.

    Raises MalformedError, or TooLarge for too many sections.
    """
    start = signature + 4
    verify_end(start + _FILE.size, source.size, "the file header")
    fields = _FILE.unpack(source.read(start, _FILE.size))
    machine, section_count, _, symbols_offset, symbol_count, optional_size, characteristics = fields
    start += _FILE.size
    verify_end(start + optional_size, source.size, "the optional header")
    optional = source.read(start, optional_size)
    bits, layout = _LAYOUTS.get(int.from_bytes(optional[:2], "little"), (0, _PE64))
    if not bits or len(optional) < layout.size:
        raise MalformedError(f"an optional header of {optional_size} bytes, not of PE32 or PE32+")
    (
        _, linker, linker_minor, entry, base, alignment, file_alignment, subsystem_version, minor,
        image_size, headers_size, subsystem, dll_characteristics, count,
    ) = layout.unpack_from(optional)  # fmt: skip
    header = PeHeader(
        signature, bits, machine, characteristics, (linker, linker_minor), entry, base, alignment,
        file_alignment, (subsystem_version, minor), image_size, headers_size, subsystem,
        dll_characteristics, _read_directories(optional[layout.size :], count), count,
        tuple(_find_uncounted(optional[layout.size :], count)),
        start, start + optional_size, section_count,
        symbols_offset + symbol_count * _SYMBOL_SIZE if symbols_offset else 0,
    )  # fmt: skip
    verify_end(header.sections_end, source.size, "the section headers")
    source.require_at_most(section_count, _MOST_SECTIONS, "sections")
    return header


def verify_end(end: int, size: int, what: str) -> None:
    """Raise MalformedError for what ends beyond the end of the file."""
    if end > size:
        raise MalformedError(f"{what} ends at byte {end:#x}, the file has {size:#x} bytes", size)


def _read_directories(table: bytes, count: int) -> tuple[tuple[int, int], ...]:
    """The directories that both the count and the optional header's size leave room for."""
    count = min(count, _MOST_DIRECTORIES, len(table) // 8)
    rows = Struct("<II").iter_unpack(table[: count * 8])
    found = [(address, size) if address else (0, 0) for address, size in rows]
    return (*found, *[(0, 0)] * (_MOST_DIRECTORIES - count))


def _find_uncounted(table: bytes, count: int) -> Iterator[int]:
    """The directories behind those that are counted, which a loader never sees."""
    for number in range(count, min(_MOST_DIRECTORIES, len(table) // 8)):
        if any(table[number * 8 : number * 8 + 8]):
            yield number


def architecture_of(header: PeHeader, *, hybrid: bool) -> str:
    """The one spelling of the image's architecture; "machine-<number>" where there is none.

    ``hybrid`` is whether the load configuration points to metadata of compiled hybrid code: the
    header of ARM64EC says x86_64, whose processes on Arm it is for; ARM64X is for both.
    """
    known = _ARCHITECTURES.get(header.machine, f"machine-{header.machine:#x}")
    return _HYBRIDS.get(known, known) if hybrid else known


# The section headers, which say what a loader maps, and where.


class Section(NamedTuple):
    """One section header, its name spelled out."""

    name: str
    address: int
    virtual_size: int
    offset: int  # in the file
    size: int  # in the file; 0: nothing of it is there
    flags: int
    declared_size: int  # in the file, also where the header names no place in it


def read_sections(source: LimitedSource, header: PeHeader) -> tuple[Section, ...]:
    """Read every section header, in order. Raises MalformedError for a name that is not there."""
    start, end = header.sections_offset, header.sections_end
    sections = []
    for name, virtual_size, address, size, offset, *_, flags in SECTION.iter_unpack(
        source.read(start, end - start)
    ):
        spelled = _read_name(source, header, name.rstrip(b"\0"))
        # Without a place in the file it has no contents, whatever the size says (GNU ld's .bss).
        sections.append(
            Section(spelled, address, virtual_size, offset, size if offset else 0, flags, size)
        )
    return tuple(sections)


def _read_name(source: LimitedSource, header: PeHeader, name: bytes) -> str:
    """A name of more than 8 bytes stands in the COFF string table, at the offset ``/123``."""
    if not name.startswith(b"/") or not name[1:].isdigit() or not header.strings_offset:
        return name.decode("latin-1")
    start = header.strings_offset + int(name[1:])
    verify_end(start + 1, source.size, "the name of a section")
    text = source.read(start, min(64, source.size - start))  # no name that counts is longer
    return text.partition(b"\0")[0].decode("latin-1")


def is_debug_companion(sections: Iterable[Section]) -> bool:
    """Whether the code is gone, as ``objcopy --only-keep-debug`` leaves it."""
    code = [s for s in sections if s.flags & IMAGE_SCN_MEM_EXECUTE and s.virtual_size]
    return has_debug_information(sections) and bool(code) and not any(s.size for s in code)


def has_debug_information(sections: Iterable[Section]) -> bool:
    """Whether DWARF's main section is there with contents, compressed or not."""
    return any(s.name in (".debug_info", ".zdebug_info") and s.size for s in sections)


def measure_debug_information(sections: Iterable[Section]) -> int:
    """The bytes of the file that sections of DWARF take, each byte counted once."""
    extents = merge(find_extents(sections, (".debug_", ".zdebug_")))
    return sum(end - start for start, end in extents)


def find_extents(
    sections: Iterable[Section], names: tuple[str, ...]
) -> tuple[tuple[int, int], ...]:
    """Start and end of the sections whose names begin so and that have contents, in file order.

    What the file has beyond the size in memory fills up its last sector.
    """
    found = (
        (section.offset, section.offset + min(section.size, section.virtual_size or section.size))
        for section in sections
        if section.name.startswith(names) and section.size
    )
    return tuple(sorted(found))


def find_read_only(
    sections: Iterable[Section], others: tuple[str, ...]
) -> tuple[tuple[int, int], ...]:
    """Start and end of data that is neither written nor run, in file order, without others.

    Sections that claim the same bytes are one.
    """
    flags = IMAGE_SCN_CNT_INITIALIZED_DATA | IMAGE_SCN_MEM_WRITE | IMAGE_SCN_MEM_EXECUTE
    return merge(
        (section.offset, section.offset + min(section.size, section.virtual_size or section.size))
        for section in sections
        if section.flags & flags == IMAGE_SCN_CNT_INITIALIZED_DATA
        and not section.name.startswith(others)
    )


def find_writable_executable(sections: Iterable[Section]) -> tuple[str, ...]:
    """The names of the sections that are both, in file order."""
    both = IMAGE_SCN_MEM_WRITE | IMAGE_SCN_MEM_EXECUTE
    return tuple(section.name for section in sections if section.flags & both == both)


def find_inaccessible(sections: Sequence[Section]) -> tuple[Section, ...]:
    """The sections that nothing in the process may read, write or run."""
    return tuple(item for item in sections if not item.flags & IMAGE_SCN_MEM_ACCESS)


def find_end(header: PeHeader, sections: Iterable[Section], source: LimitedSource) -> int:
    """Where everything that the headers speak of ends, without the signature."""
    ends = [section.offset + section.size for section in sections if section.size]
    end = max([*ends, min(header.headers_size, source.size), header.sections_end])
    if end <= header.strings_offset <= source.size - 4:
        length = int.from_bytes(source.read(header.strings_offset, 4), "little")
        end = header.strings_offset + length
        end += -end % max(header.file_alignment, 1)  # LLD fills up what is not aligned
    return min(end, source.size)


# The bytes of a PE image at the addresses where a loader maps them.

_SECTOR = 0x200
_PAGE = 0x1000
_BLOCK = 16 * 1024
"""What is read at once where a table's length is known only by walking it."""
_LONGEST_NAME = 4096


class MappedImage:
    """The file's bytes by their address in memory, relative to the image base."""

    __slots__ = (
        "_block", "_block_start", "_maps", "_texts", "_texts_start", "header", "path", "source",
    )  # fmt: skip

    def __init__(
        self, path: str, source: LimitedSource, header: PeHeader, sections: Iterable[Section]
    ) -> None:
        self.path = path
        self.header = header
        self.source = source
        self._maps = tuple(_map(header, sections, source.size))
        self._block = b""
        self._block_start = 0
        self._texts = b""
        self._texts_start = 0

    def locate(self, address: int, what: str) -> tuple[int, int, int]:
        """File offset of an address, bytes of the file and of memory from there to the end."""
        for start, memory, offset, size in self._maps:
            distance = address - start
            if 0 <= distance < memory:
                return offset + distance, max(size - distance, 0), memory - distance
        raise MalformedError(f"{what} at address {address:#x} lies in no section")

    def read(self, address: int, length: int, what: str, most: int = 0) -> bytes:
        """Exactly length bytes from the address on, all of them in one section.

        Raises MalformedError, or TooLarge for more than ``most``, if that is not 0.
        """
        if not length:
            return b""
        offset, available, memory = self.locate(address, what)
        if length > memory:
            raise MalformedError(
                f"{what} has {length:#x} bytes, its section only {memory:#x} more", offset
            )
        if length > available + _PAGE:  # zeros that nobody wrote: no table is made of them
            raise MalformedError(f"{what} lies in memory that the file does not fill", offset)
        if 0 < (most := self.source.limit(most)) < length:
            raise TooLarge(f"{what}: of {length} bytes at most {most} are read")
        content = self.source.read(offset, min(length, available)) if available else b""
        return content.ljust(length, b"\0")

    def read_some(self, address: int, length: int, what: str) -> bytes:
        """Up to length bytes from the address on, as far as the file fills the section."""
        offset, available, _ = self.locate(address, what)
        return self.source.read(offset, min(length, available)) if available else b""

    def unpack(self, layout: Struct, address: int, what: str) -> tuple[Any, ...]:
        """One small structure; neighbours are read along, so that walking a table stays cheap."""
        start = address - self._block_start
        if start < 0 or start + layout.size > len(self._block):
            self._block = self.read_some(address, _BLOCK, what)
            self._block_start, start = address, 0
            if len(self._block) < layout.size:  # its end lies in the zeros behind the contents
                return layout.unpack(self.read(address, layout.size, what))
        return layout.unpack_from(self._block, start)

    def text(self, address: int, what: str) -> str:
        """The zero-terminated name at an address; neighbours are read along.

        Raises MalformedError, or TooLarge for one that is too long.
        """
        start = address - self._texts_start
        end = self._texts.find(b"\0", start) if start >= 0 else -1
        if end < 0:
            self._texts = self.read_some(address, _LONGEST_NAME, what)
            self._texts_start, start = address, 0
            end = self._texts.find(b"\0")
        if end >= 0:
            return decode(self._texts[start:end])
        _, available, memory = self.locate(address, what)
        if len(self._texts) < available:
            reason = f"has more than {_LONGEST_NAME} bytes, none so long is read"
            raise TooLarge(f"{what} at address {address:#x} {reason}")
        if available == memory:
            raise MalformedError(f"{what} at address {address:#x} has no end")
        return decode(self._texts)


def decode(name: bytes) -> str:
    """Names are ASCII by habit only; bytes that are not stay visible as escapes."""
    return name.decode("utf-8", "backslashreplace")


def _map(
    header: PeHeader, sections: Iterable[Section], size: int
) -> Iterable[tuple[int, int, int, int]]:
    """Address, bytes in memory, offset and bytes in the file, of the headers and each section."""
    if header.section_alignment < _PAGE:
        # The whole file is mapped as it lies: addresses are offsets (drivers, tiny programs).
        yield 0, max(header.image_size, size), 0, size
        return
    for section in sections:
        memory = section.virtual_size or section.size
        memory = -(-memory // _PAGE) * _PAGE
        # The loader counts in sectors, and passes over what the offset has beyond one.
        offset = section.offset - section.offset % _SECTOR
        held = min(section.size, memory, size - offset)
        if memory:
            yield section.address, memory, offset, held
    headers = min(header.headers_size, size)
    yield 0, headers, 0, headers


# Three small directories: debug, load configuration and .NET.

_ENTRY = Struct("<12xIIII")  # type, size, address, offset in the file
_CODEVIEW = 2
_ENTRY_SIZE = 28
_MOST_ENTRIES = 64
_PATHS = {b"RSDS": 24, b"NB10": 16}  # where the path begins in either form of the record
_LONGEST_RECORD = 4096
_FLAGS = Struct("<H")
_POINTER = {32: Struct("<I"), 64: Struct("<Q")}
_DEPENDENT_LOAD_FLAGS = {32: 54, 64: 78}  # places in IMAGE_LOAD_CONFIG_DIRECTORY
_ADDRESSES = {
    32: {"cookie": 60, "exception handlers": 64, "guard check": 72, "guard table": 80},
    64: {"cookie": 88, "exception handlers": 96, "guard check": 112, "guard table": 128},
}
_CHPE_METADATA = {32: 124, 64: 200}
_COMIMAGE_FLAGS_ILONLY = 1
_COMIMAGE_FLAGS_IL_LIBRARY = 4  # compiled ahead of time too (ReadyToRun), but not only

MAPPED = frozenset({0, 1, 2, 3, 5, 6, 9, 10, 12, 13, 14})
"""Directories of the image itself: 4 lies outside, 7, 8, 11 and 15 are not what they say."""


class LoadConfiguration(NamedTuple):
    """What concerns us of the load configuration, whose length says which fields it has."""

    dependent_load_flags: int = 0
    hybrid: bool = False  # has metadata of compiled hybrid code: ARM64EC or ARM64X


def read_pdb(image: MappedImage, source: LimitedSource) -> str:
    """The path of the PDB file in the CodeView record; "" where there is none.

    Raises MalformedError, or TooLarge for more than is read.
    """
    start, size = image.header.directories[DEBUG]
    count = size // _ENTRY_SIZE
    source.require_at_most(count, _MOST_ENTRIES, "debug entries")
    for address in range(start, start + count * _ENTRY_SIZE, _ENTRY_SIZE):
        kind, length, _, offset = _ENTRY.unpack(image.read(address, _ENTRY_SIZE, "a debug entry"))
        if kind != _CODEVIEW:
            continue
        if offset + length > source.size:
            raise MalformedError("the CodeView record lies beyond the end of the file", offset)
        record = source.read(offset, min(length, _LONGEST_RECORD))
        place = _PATHS.get(record[:4])
        if place is not None:
            path, end, _ = record[place:].partition(b"\0")
            if not end:
                source.require_at_most(length, _LONGEST_RECORD, "bytes in its CodeView record")
            return decode(path)
    return ""


def read_load_configuration(image: MappedImage) -> LoadConfiguration:
    """Read the load configuration, as far as it goes."""
    start, _ = image.header.directories[LOAD_CONFIG]
    if not start:
        return LoadConfiguration()
    length = int.from_bytes(image.read(start, 4, "the load configuration"), "little")
    bits = image.header.bits
    flags = pointer = 0
    if length >= _DEPENDENT_LOAD_FLAGS[bits] + 2:
        address = start + _DEPENDENT_LOAD_FLAGS[bits]
        (flags,) = image.unpack(_FLAGS, address, "the load configuration")
    if length >= _CHPE_METADATA[bits] + bits // 8:
        address = start + _CHPE_METADATA[bits]
        (pointer,) = image.unpack(_POINTER[bits], address, "the load configuration")
    return LoadConfiguration(flags, bool(pointer))


def find_configuration_faults(image: MappedImage) -> Iterator[str]:
    """Say which addresses in the load configuration lead out of the image: each has to."""
    start, _ = image.header.directories[LOAD_CONFIG]
    if not start:
        return
    header = image.header
    length = int.from_bytes(image.read(start, 4, "the load configuration"), "little")
    pointer = _POINTER[header.bits]
    for name, place in _ADDRESSES[header.bits].items():
        if place + pointer.size > length:
            return
        (address,) = image.unpack(pointer, start + place, "the load configuration")
        if address and not 0 <= address - header.image_base < header.image_size:
            yield f"has the {name} of its load configuration at {address:#x}, beyond the image"


def is_managed(image: MappedImage) -> bool:
    """Whether it holds .NET code alone, which runs wherever its runtime does."""
    start, _ = image.header.directories[CLR]
    if not start:
        return False
    flags = int.from_bytes(image.read(start, 20, "the CLR header")[16:], "little")
    return bool(flags & (_COMIMAGE_FLAGS_ILONLY | _COMIMAGE_FLAGS_IL_LIBRARY))


def verify_directories(image: MappedImage) -> None:
    """Raise MalformedError for a directory that lies in no section, or beyond its end."""
    for number, (start, size) in enumerate(image.header.directories):
        if start and number in MAPPED:
            what = f"directory {number}"
            _, _, memory = image.locate(start, what)
            if size > memory:
                raise MalformedError(
                    f"{what} has {size:#x} bytes, its section only {memory:#x} more"
                )
