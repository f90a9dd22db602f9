"""Read the headers, sections and small directories of a PE image, and its bytes by address.

"PE" in a reference is Microsoft's specification "PE Format". Addresses are relative to the image
base (RVA) unless a comment states otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Any, Final, NamedTuple

from binary_checks.errors import MalformedError
from binary_checks.objects.byte_source import LimitedSource, merge

# The headers: machine, versions, flags and directories. Architectures have the same names as in
# other formats.

MAGIC: Final = b"MZ"

# PE, "Characteristics", of the file header, and "Section Flags", of a section header
IMAGE_FILE_DLL: Final = 0x2000
IMAGE_SCN_CNT_INITIALIZED_DATA: Final = 0x40
IMAGE_SCN_MEM_EXECUTE: Final = 0x20000000
IMAGE_SCN_MEM_WRITE: Final = 0x80000000

# Indices of directories (PE, "Optional Header Data Directories (Image Only)")
EXPORT: Final = 0
IMPORT: Final = 1
RESOURCE: Final = 2
SECURITY: Final = 4
DEBUG: Final = 6
LOAD_CONFIG: Final = 10
DELAY_IMPORT: Final = 13
CLR: Final = 14

_DOS_HEADER = Struct("<60xI")  # e_lfanew
_SIGNATURE = b"PE\0\0"
# PE, "COFF File Header": machine, sections, time stamp, offset and number of symbols, size of the
# optional header, characteristics
FILE: Final = Struct("<HHIIIHH")
# PE, "Section Table (Section Headers)": name, VirtualSize, address, SizeOfRawData,
# PointerToRawData, relocations and line numbers (offsets, then counts), characteristics.
SECTION: Final = Struct("<8sIIIIIIHHI")
_MOST_DIRECTORIES = 16
# Bytes of a COFF symbol record (PE, "COFF Symbol Table"); all records precede the string table.
SYMBOL_SIZE: Final = 18
_LONGEST_SECTION_NAME = 64  # bytes; the names that we look for are shorter

# PE, "Optional Header (Image Only)", up to NumberOfRvaAndSizes: magic, linker version (2), entry
# point, image base, alignments (2), subsystem version (2), sizes of image and headers, subsystem,
# DllCharacteristics, number of directories.
_PE32 = Struct("<HBB 12x I 8x III 8x HH 4x II 4x HH 20x I".replace(" ", ""))
_PE64 = Struct("<HBB 12x I 4x QII 8x HH 4x II 4x HH 36x I".replace(" ", ""))
_LAYOUTS = {0x10B: (32, _PE32), 0x20B: (64, _PE64)}  # magic of PE32 and PE32+

# IMAGE_FILE_MACHINE_* (PE/COFF specification, "Machine Types")
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
    """The fields of the file header and the optional header, and the directories."""

    signature: int  # file offset of the signature "PE\0\0"
    bits: int
    machine: int
    characteristics: int
    linker_version: tuple[int, int]
    image_base: int
    section_alignment: int
    file_alignment: int
    subsystem_version: tuple[int, int]
    image_size: int
    headers_size: int
    subsystem: int
    dll_characteristics: int
    # (address, size) of all 16 directories; (0, 0) if absent
    directories: tuple[tuple[int, int], ...]
    optional_offset: int  # file offset of the optional header
    sections_offset: int
    section_count: int
    strings_offset: int  # file offset of the COFF string table; 0 if there is none

    @property
    def sections_end(self) -> int:
        """The end of the section headers, in bytes from the start of the file."""
        return self.sections_offset + self.section_count * SECTION.size


def find_signature(source: LimitedSource) -> int:
    """Return the file offset of the PE signature; 0 for a DOS program or a text.

    The offset is in the field e_lfanew of the DOS header, at byte 0x3C (PE, "MS-DOS Stub (Image
    Only)").
    """
    if source.size < _DOS_HEADER.size:
        return 0
    (start,) = _DOS_HEADER.unpack(source.read(0, _DOS_HEADER.size))
    if start + len(_SIGNATURE) > source.size:
        return 0
    return int(start) if source.read(start, len(_SIGNATURE)) == _SIGNATURE else 0


def read_header(source: LimitedSource, signature: int) -> PeHeader:
    """Read the file header, the optional header and the directories.

    Raises MalformedError, or TooLarge if there are more sections than the limit.
    """
    start = signature + len(_SIGNATURE)
    source.require_end(start + FILE.size, "the file header ends")
    fields = FILE.unpack(source.read(start, FILE.size))
    machine, section_count, _, symbols_offset, symbol_count, optional_size, characteristics = fields
    start += FILE.size
    source.require_end(start + optional_size, "the optional header ends")
    optional = source.read(start, optional_size)
    bits, layout = _LAYOUTS.get(int.from_bytes(optional[:2], "little"), (0, _PE64))
    if not bits or len(optional) < layout.size:
        raise MalformedError(f"an optional header of {optional_size} bytes, not of PE32 or PE32+")
    (
        _, linker, linker_minor, _, base, alignment, file_alignment, subsystem_version, minor,
        image_size, headers_size, subsystem, dll_characteristics, count,
    ) = layout.unpack_from(optional)  # fmt: skip
    header = PeHeader(
        signature, bits, machine, characteristics, (linker, linker_minor), base, alignment,
        file_alignment, (subsystem_version, minor), image_size, headers_size, subsystem,
        dll_characteristics, _read_directories(optional[layout.size :], count),
        start, start + optional_size, section_count,
        symbols_offset + symbol_count * SYMBOL_SIZE if symbols_offset else 0,
    )  # fmt: skip
    source.require_end(header.sections_end, "the section headers end")
    return header


def _read_directories(table: bytes, count: int) -> tuple[tuple[int, int], ...]:
    """Return the directories within the stated count that fit into the optional header."""
    count = min(count, _MOST_DIRECTORIES, len(table) // 8)
    rows = Struct("<II").iter_unpack(table[: count * 8])
    found = [(address, size) if address else (0, 0) for address, size in rows]
    return (*found, *[(0, 0)] * (_MOST_DIRECTORIES - count))


def architecture_of(header: PeHeader, *, hybrid: bool) -> str:
    """Return the name of the image's architecture, "machine-<number>" if it is unknown.

    ``hybrid`` is a fact of the load configuration. ARM64EC has the machine x86_64, since it runs in
    x86_64 processes on Arm; ARM64X has the machine aarch64 and is for both.
    """
    known = _ARCHITECTURES.get(header.machine, f"machine-{header.machine:#x}")
    return _HYBRIDS.get(known, known) if hybrid else known


# The section headers (PE, "Section Table (Section Headers)"): parts that a loader maps, with their
# addresses.


class Section(NamedTuple):
    """One section header."""

    name: str
    address: int
    virtual_size: int
    offset: int  # PointerToRawData, bytes from the start of the file
    size: int  # bytes in the file; 0 without contents
    flags: int


def read_sections(source: LimitedSource, header: PeHeader) -> tuple[Section, ...]:
    """Read all section headers, in order. Raises MalformedError if a name lies outside the file."""
    start, end = header.sections_offset, header.sections_end
    sections = []
    for name, virtual_size, address, size, offset, *_, flags in SECTION.iter_unpack(
        source.read(start, end - start)
    ):
        spelled = read_section_name(source, name.rstrip(b"\0"), header.strings_offset)
        # A section with PointerToRawData 0 has no contents, regardless of its size (.bss of GNU
        # ld).
        sections.append(
            Section(spelled, address, virtual_size, offset, size if offset else 0, flags)
        )
    return tuple(sections)


def read_section_name(source: LimitedSource, name: bytes, strings: int) -> str:
    """Return the name of a section; ``strings`` is the offset of the COFF string table, or 0.

    A name of more than 8 bytes is in the COFF string table, at the decimal offset in ``/123``; GNU
    ld uses such names in images, too (libfftw3-3.dll of pyfftw 0.15.1).
    """
    if not name.startswith(b"/") or not name[1:].isdigit() or not strings:
        return name.decode("latin-1")
    start = strings + int(name[1:])
    source.require_end(start + 1, "the name of a section ends")
    text = source.read(start, min(_LONGEST_SECTION_NAME, source.size - start))
    return text.partition(b"\0")[0].decode("latin-1")


def is_debug_companion(sections: Iterable[Section]) -> bool:
    """Return whether the code was removed, as by ``objcopy --only-keep-debug``."""
    code = [s for s in sections if s.flags & IMAGE_SCN_MEM_EXECUTE and s.virtual_size]
    return has_debug_information(sections) and bool(code) and not any(s.size for s in code)


def has_debug_information(sections: Iterable[Section]) -> bool:
    """Return whether .debug_info (or compressed, .zdebug_info) has contents."""
    return any(s.name in (".debug_info", ".zdebug_info") and s.size for s in sections)


def measure_debug_information(sections: Iterable[Section]) -> int:
    """Return the total size of DWARF sections in the file, counting each byte once."""
    return sum(end - start for start, end in merge(find_extents(sections, (".debug_", ".zdebug_"))))


def find_extents(
    sections: Iterable[Section], names: tuple[str, ...]
) -> tuple[tuple[int, int], ...]:
    """Return start and end of the sections whose names begin with one of ``names``, in file order.

    Empty sections are left out. Bytes after VirtualSize are padding to FileAlignment and do not
    count.
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
    """Return start and end of data that are neither writable nor executable, in file order.

    Sections whose names begin with one of ``others`` are left out; overlapping sections are joined.
    """
    flags = IMAGE_SCN_CNT_INITIALIZED_DATA | IMAGE_SCN_MEM_WRITE | IMAGE_SCN_MEM_EXECUTE
    return merge(
        (section.offset, section.offset + min(section.size, section.virtual_size or section.size))
        for section in sections
        if section.flags & flags == IMAGE_SCN_CNT_INITIALIZED_DATA
        and not section.name.startswith(others)
    )


def find_end(header: PeHeader, sections: Iterable[Section], source: LimitedSource) -> int:
    """Return the end of all parts that the headers refer to, except the signature."""
    ends = [section.offset + section.size for section in sections if section.size]
    end = max([*ends, min(header.headers_size, source.size), header.sections_end])
    # PE, "COFF String Table": the first 4 bytes are its size, and count themselves
    if end <= header.strings_offset <= source.size - 4:
        length = int.from_bytes(source.read(header.strings_offset, 4), "little")
        end = header.strings_offset + length
        end += -end % max(header.file_alignment, 1)  # LLD pads the last part to FileAlignment
    return min(end, source.size)


# The bytes of a PE image, at the addresses to which a loader maps them.

_SECTOR = 0x200  # bytes; the loader reads sections from whole sectors
_PAGE = 0x1000  # bytes
_BLOCK = 1 << 10  # bytes that are read first, since most names follow each other
_LONGEST_NAME = 1 << 16  # bytes; longer strings are not read


class MappedImage:
    """The file's bytes by address, relative to the image base."""

    def __init__(
        self, path: str, source: LimitedSource, header: PeHeader, sections: Iterable[Section]
    ) -> None:
        self.path = path
        self.header = header
        self.source = source
        self._maps = tuple(_map(header, sections, source.size))
        self._names_at, self._names = 0, b""  # the bytes in which the last name was found

    def locate(self, address: int, what: str) -> tuple[int, int, int]:
        """Return an address's file offset, and the number of bytes after it in file and memory."""
        for start, memory, offset, size in self._maps:
            distance = address - start
            if 0 <= distance < memory:
                return offset + distance, max(size - distance, 0), memory - distance
        raise MalformedError(f"{what} at address {address:#x} lies in no section")

    def read(self, address: int, length: int, what: str) -> bytes:
        """Return exactly ``length`` bytes from an address, all in one section.

        Raises MalformedError.
        """
        if not length:
            return b""
        offset, available, memory = self.locate(address, what)
        if length > memory:
            raise MalformedError(
                f"{what} has {length:#x} bytes, but its section has only {memory:#x} more", offset
            )
        if length > available + _PAGE:  # zeros that are in no file; no table consists of them
            raise MalformedError(f"{what} lies in memory that the file does not fill", offset)
        content = self.source.read(offset, min(length, available)) if available else b""
        return content.ljust(length, b"\0")

    def unpack(self, layout: Struct, address: int, what: str) -> tuple[Any, ...]:
        """Unpack one structure at an address."""
        return layout.unpack(self.read(address, layout.size, what))

    def text(self, address: int, what: str) -> str:
        """Return the NUL-terminated string at an address. Raises MalformedError without a NUL."""
        offset, available, memory = self.locate(address, what)
        near = offset - self._names_at
        stop = self._names.find(b"\0", near, near + available) if near >= 0 else -1
        if stop >= 0:
            self.source.charge_symbol(stop - near)
            return decode(self._names[near:stop])
        for most in (_BLOCK, _LONGEST_NAME):
            content = self.source.read(offset, min(available, most)) if available else b""
            text, end, _ = content.partition(b"\0")
            if end:
                self._names_at, self._names = offset, content
                self.source.charge_symbol(len(text))
                return decode(text)
        if available == memory or len(content) == _LONGEST_NAME:
            raise MalformedError(f"{what} at address {address:#x} has no end")
        return decode(text)


def decode(name: bytes) -> str:
    """Decode a name. Names should be ASCII: bytes that are not UTF-8 are escaped."""
    return name.decode("utf-8", "backslashreplace")


def _map(
    header: PeHeader, sections: Iterable[Section], size: int
) -> Iterable[tuple[int, int, int, int]]:
    """Yield address, bytes in memory, file offset and bytes in the file of headers and sections."""
    if header.section_alignment < _PAGE:
        # If SectionAlignment is less than a page, the file is mapped unchanged, so that addresses
        # are file offsets (drivers, tiny programs).
        yield 0, max(header.image_size, size), 0, size
        return
    for section in sections:
        memory = section.virtual_size or section.size
        memory = -(-memory // _PAGE) * _PAGE
        # The loader rounds PointerToRawData down to sectors.
        offset = section.offset - section.offset % _SECTOR
        held = min(section.size, memory, size - offset)
        if memory:
            yield section.address, memory, offset, held
    headers = min(header.headers_size, size)
    yield 0, headers, 0, headers


# Three small directories: debug (PE, "Debug Directory (Image Only)"), load configuration (PE, "The
# Load Configuration Structure (Image Only)") and .NET.

_ENTRY = Struct("<12xIIII")  # Type, SizeOfData, AddressOfRawData, PointerToRawData
_CODEVIEW = 2  # IMAGE_DEBUG_TYPE_CODEVIEW
# RSDS (PDB 7.0): signature 4, GUID 16, age 4 bytes. NB10 (PDB 2.0): signature, offset, time stamp
# and age, 4 bytes each.
_PATHS = {b"RSDS": 24, b"NB10": 16}  # bytes before the path in both forms of a CodeView record
_LONGEST_RECORD = 4096  # bytes of a CodeView record that are read
_FLAGS = Struct("<H")
_POINTER = {32: Struct("<I"), 64: Struct("<Q")}
# Offsets of DependentLoadFlags in IMAGE_LOAD_CONFIG_DIRECTORY32 and 64.
_DEPENDENT_LOAD_FLAGS = {32: 54, 64: 78}
_CHPE_METADATA = {32: 124, 64: 200}  # offsets of CHPEMetadataPointer
# DynamicValueRelocTableOffset and -Section (counted from 1) of 64-bit images; Version
# and Size of the table; Symbol and BaseRelocSize of an entry.
_TABLE, _TABLE_AT, _TABLE_HEAD, _TABLE_ENTRY = Struct("<IH"), 224, Struct("<II"), Struct("<QI")
_ARM64, _OF_ARM64X = 0xAA64, 6  # IMAGE_FILE_MACHINE_ARM64, IMAGE_DYNAMIC_RELOCATION_ARM64X
_CLI_HEADER = Struct("<16xI")  # up to its flags (ECMA-335, II.25.3.3)
_COMIMAGE_FLAGS_ILONLY = 1
_COMIMAGE_FLAGS_IL_LIBRARY = 4  # IL that is also compiled ahead of time (ReadyToRun)

MAPPED = frozenset({0, 1, 2, 3, 5, 6, 9, 10, 12, 13, 14})
"""Directories that lie in sections. 4 has a file offset, 8 is an address without a table, 11 (bound
imports) lies in the headers, 7 and 15 are reserved.
"""


class LoadConfiguration(NamedTuple):
    """Fields of the load configuration. Its size determines which fields are present."""

    dependent_load_flags: int = 0
    hybrid: bool = False  # ARM64EC or ARM64X


def read_pdb(image: MappedImage, source: LimitedSource) -> str:
    """Return the path of the PDB file in the CodeView record; "" if there is none.

    Raises MalformedError, or TooLarge if the record is longer than the limit.
    """
    start, size = image.header.directories[DEBUG]
    count = size // _ENTRY.size
    for address in range(start, start + count * _ENTRY.size, _ENTRY.size):
        kind, length, _, offset = image.unpack(_ENTRY, address, "a debug entry")
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


def read_load_configuration(image: MappedImage, sections: tuple[Section, ...]) -> LoadConfiguration:
    """Read the fields of the load configuration that its size includes.

    An image for Arm is ARM64X if the loader can make an image for x86_64 of it, by relocations;
    other hybrids have metadata (CHPE) alone.
    """
    start, _ = image.header.directories[LOAD_CONFIG]
    if not start:
        return LoadConfiguration()
    length = int.from_bytes(image.read(start, 4, "the load configuration"), "little")
    bits = image.header.bits
    flags = pointer = 0
    if length >= _DEPENDENT_LOAD_FLAGS[bits] + _FLAGS.size:
        address = start + _DEPENDENT_LOAD_FLAGS[bits]
        (flags,) = image.unpack(_FLAGS, address, "the load configuration")
    if length >= _CHPE_METADATA[bits] + _POINTER[bits].size:
        address = start + _CHPE_METADATA[bits]
        (pointer,) = image.unpack(_POINTER[bits], address, "the load configuration")
    if image.header.machine != _ARM64:
        return LoadConfiguration(flags, bool(pointer))
    if length < _TABLE_AT + _TABLE.size:
        return LoadConfiguration(flags)
    offset, number = image.unpack(_TABLE, start + _TABLE_AT, "the load configuration")
    if not 0 < number <= len(sections):
        return LoadConfiguration(flags)
    table = sections[number - 1].address + offset
    return LoadConfiguration(flags, _OF_ARM64X in _read_dynamic_symbols(image, table))


def _read_dynamic_symbols(image: MappedImage, address: int) -> Iterator[int]:
    """Yield the symbols of a table of dynamic relocations, of which only version 1 is in use."""
    what = "the table of dynamic relocations"
    version, size = image.unpack(_TABLE_HEAD, address, what)
    table = image.read(address + _TABLE_HEAD.size, size if version == 1 else 0, what)
    place = 0
    while place + _TABLE_ENTRY.size <= len(table):
        symbol, length = _TABLE_ENTRY.unpack_from(table, place)
        yield symbol
        place += _TABLE_ENTRY.size + length


def is_managed(image: MappedImage) -> bool:
    """Return whether the image contains only .NET code, which runs on any architecture.

    One such image is Python.Runtime.dll of pythonnet 3.2.1.
    """
    start, _ = image.header.directories[CLR]
    if not start:
        return False
    (flags,) = image.unpack(_CLI_HEADER, start, "the CLR header")
    return bool(flags & (_COMIMAGE_FLAGS_ILONLY | _COMIMAGE_FLAGS_IL_LIBRARY))


def verify_directories(image: MappedImage) -> None:
    """Raise MalformedError for a directory that is not entirely inside one section."""
    for number, (start, size) in enumerate(image.header.directories):
        if start and number in MAPPED:
            what = f"directory {number}"
            _, _, memory = image.locate(start, what)
            if size > memory:
                raise MalformedError(
                    f"{what} has {size:#x} bytes, but its section has only {memory:#x} more"
                )
