"""Reads the headers of a PE image: machine, versions, flags and directories.

Architectures are spelled as those of other formats are.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from binary_checks.errors import MalformedError
from binary_checks.objects.limits import LimitedSource

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
    source.refuse_more(section_count, _MOST_SECTIONS, "sections")
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
