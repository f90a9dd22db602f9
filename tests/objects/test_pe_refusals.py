"""What keeps Windows from mapping or linking a PE image is reported; each mutation is one field."""

from __future__ import annotations

import struct

import pytest

from binary_checks.model import MalformedObject, ObjectFile, PeFile, UnreadObject
from binary_checks.objects import read_objects
from fixtures.samples import FOLDER, read_pe_sample
from tests.objects.byte_sources import Bytes
from tests.objects.pe_sections import add_section

# Where fields lie behind the PE signature, of PE32+; optional header, its directories, sections.
MACHINE, COUNT, CHARACTERISTICS = (4, "H"), (6, "H"), (22, "H")
ENTRY, IMAGE_BASE = (24 + 16, "I"), (24 + 24, "Q")
SECTION_ALIGNMENT, FILE_ALIGNMENT = (24 + 32, "I"), (24 + 36, "I")
IMAGE_SIZE, HEADERS_SIZE = (24 + 56, "I"), (24 + 60, "I")
DLL_CHARACTERISTICS, DIRECTORY_COUNT = (24 + 70, "H"), (24 + 108, "I")
DIRECTORIES, SECTIONS = 24 + 112, 24 + 240
EXPORT, IMPORT, TLS, ADDRESSES = 0, 1, 9, 12
Field = tuple[int, str]


def directory(number: int) -> Field:
    return DIRECTORIES + 8 * number, "I"


def section(number: int, field: int) -> Field:
    """Return a section's VirtualSize (8), address (12), SizeOfRawData (16) or offset (20)."""
    return SECTIONS + 40 * number + field, "I"


def patched(sample: str | bytes, *changes: tuple[Field, int]) -> bytes:
    content = bytearray(read_pe_sample(sample) if isinstance(sample, str) else sample)
    start = int.from_bytes(content[60:64], "little")
    for (place, kind), value in changes:
        struct.pack_into(f"<{kind}", content, start + place, value)
    return bytes(content)


def offset_of(content: bytes, address: int) -> int:
    start = int.from_bytes(content[60:64], "little")
    for number in range(content[start + 6]):
        place = start + SECTIONS + 40 * number + 8
        size, begin, _, offset = struct.unpack_from("<4I", content, place)
        if begin <= address < begin + size:
            return int(offset + address - begin)
    raise AssertionError(f"{address:#x} lies in no section")


def in_directory(sample: str, number: int, word: int, value: int, kind: str = "I") -> bytes:
    """Return the sample with another value in a word of a directory's contents."""
    content = bytearray(read_pe_sample(sample))
    start = int.from_bytes(content[60:64], "little")
    (address,) = struct.unpack_from("<I", content, start + DIRECTORIES + 8 * number)
    struct.pack_into(f"<{kind}", content, offset_of(bytes(content), address) + 4 * word, value)
    return bytes(content)


def read(content: bytes) -> ObjectFile | MalformedObject | UnreadObject:
    (found,) = read_objects("a.dll", Bytes(content))
    return found


def refusals(content: bytes) -> str:
    found = read(content)
    assert isinstance(found, PeFile), found
    return "; ".join(found.refusals)


@pytest.mark.parametrize("name", sorted(path.name for path in (FOLDER / "pe").iterdir()))
def test_no_sample_is_refused(name: str) -> None:
    assert refusals(read_pe_sample(name)) == ""


@pytest.mark.parametrize(
    ("field", "value", "fault"),
    [
        (CHARACTERISTICS, 0x2020, "is not marked as an image"),
        (CHARACTERISTICS, 0x2023, "loads only at address 0x180000000"),
        (MACHINE, 0x014C, "is for machine 0x14c and has a header of 64 bits"),
        (IMAGE_BASE, 0x180001000, "ImageBase 0x180001000, which is not a multiple of 0x10000"),
        (DLL_CHARACTERISTICS, 0x1E0, "FORCE_INTEGRITY"),
        (DIRECTORY_COUNT, 17, "states 17 directories; an image has at most 16"),
        (DIRECTORY_COUNT, 5, "a directory of base relocations after the 5 that its header counts"),
        (SECTION_ALIGNMENT, 3, "SectionAlignment 0x3, which is not a power of 2"),
        (SECTION_ALIGNMENT, 0, "SectionAlignment 0x0, which is not a power of 2"),
        (SECTION_ALIGNMENT, 0x100, "SectionAlignment 0x100, which is less than its FileAlignment"),
        (SECTION_ALIGNMENT, 0x800, "below its minimum (0x1000 and 0x200) they must be equal"),
        (SECTION_ALIGNMENT, 0x2000, "its section '.text' at address 0x1000, not at 0x2000"),
        (FILE_ALIGNMENT, 0, "FileAlignment 0x0, which is not a power of 2"),
        (FILE_ALIGNMENT, 0x100, "below its minimum (0x1000 and 0x200) they must be equal"),
        (FILE_ALIGNMENT, 0x201, "FileAlignment 0x201, which is not a power of 2"),
        (HEADERS_SIZE, 0x100, "SizeOfHeaders 0x100, but its section headers end at byte"),
        (HEADERS_SIZE, 0x2000, "its section '.text' at address 0x1000, not at 0x2000"),
        (HEADERS_SIZE, 0x7FFFFFFF, "SizeOfHeaders 0x7fffffff in an image of"),
        (IMAGE_SIZE, 0x3000, "SizeOfImage 0x3000, but its sections end at"),
        (IMAGE_SIZE, 0x7FFFFFFF, "SizeOfImage 0x7fffffff, more than Windows maps"),
        (section(0, 8), 0x5000, "its section '.rdata' at address 0x2000, not at 0x6000"),
        (section(2, 12), 0x9000, "at address 0x9000, not at"),
        (section(1, 16), 0, "in memory that the file does not fill"),
        (section(1, 36), 0, "in section '.rdata', which cannot be read"),
        (ENTRY, 0x2000, "has its entry point at address 0x2000, where there is no code"),
        (ENTRY, 0x7FFF0000, "has its entry point at address 0x7fff0000"),
        (directory(TLS), 0x2000, "has a directory of thread-local storage without a size"),
        (directory(EXPORT), 0x1C, "has its directory of exports at address 0x1c, in its headers"),
        (section(1, 20), 0x610, "has its section '.rdata' at byte 0x610, not a multiple of 0x200"),
    ],
)
def test_a_field_of_the_headers(field: Field, value: int, fault: str) -> None:
    assert fault in refusals(patched("delayed.dll", (field, value)))


def test_a_header_that_is_not_aligned() -> None:
    content = read_pe_sample("plain.dll")
    start = int.from_bytes(content[60:64], "little")
    moved = bytearray(content[:start] + b"\0\0" + content[start:])
    del moved[0x3FE:0x400]
    struct.pack_into("<I", moved, 60, start + 2)
    assert "its PE header at byte 0x7a, which is not a multiple of 4" in refusals(bytes(moved))


def test_a_program_needs_an_entry_point() -> None:
    assert "is a program without an entry point" in refusals(patched("program.exe", (ENTRY, 0)))


def test_small_alignments_are_fine_where_the_file_lies_as_memory_does() -> None:
    small = ((SECTION_ALIGNMENT, 0x200), (FILE_ALIGNMENT, 0x200))
    fault = "a section '.text' that lies at byte 0x400 of the file, at 0x1000 in memory"
    assert fault in refusals(patched("no_imports.dll", *small))
    as_in_memory = [(section(number, 20), 0x1000 * (number + 1)) for number in range(2)]
    filled = read_pe_sample("no_imports.dll").ljust(0x4000, b"\0")
    assert ".text" not in refusals(patched(filled, *small, *as_in_memory))


@pytest.mark.parametrize(
    ("word", "value", "fault"),
    [
        (3, 0, "has an import descriptor without a name"),
        (3, 0x10, "imports from a library named"),
        (4, 0x7FFF0000, "has no table of addresses for its imports from 'KERNEL32.dll'"),
        (4, 0x2147, "at address 0x2147, which is not a multiple of 4"),
        (5, 0x3000, "import addresses, but its tables name"),
    ],
)
def test_descriptors_of_imports(word: int, value: int, fault: str) -> None:
    assert fault in refusals(in_directory("delayed.dll", IMPORT, word, value))


def test_imports_that_are_gone_leave_their_addresses() -> None:
    content = patched("delayed.dll", (directory(IMPORT), 0))
    assert "its tables name only 0: nothing fills in the others" in refusals(content)


def test_addresses_that_are_filled_in_already_need_no_import() -> None:
    """binutils leaves those of delay imports: they point to code in the image."""
    content = bytearray(patched("delayed.dll", (directory(IMPORT), 0)))
    start = int.from_bytes(content[60:64], "little")
    address, size = struct.unpack_from("<2I", content, start + directory(ADDRESSES)[0])
    (base,) = struct.unpack_from("<Q", content, start + IMAGE_BASE[0])
    place = offset_of(bytes(content), address)
    struct.pack_into(f"<{size // 8}Q", content, place, *[base + 0x1000] * (size // 8))
    assert "import addresses" not in refusals(bytes(content))


def test_a_table_of_exports_in_zeros_that_nobody_wrote() -> None:
    assert "has the ordinals of its exports in memory that the file does not fill" in refusals(
        in_directory("plain.dll", EXPORT, 9, 0x2F00)
    )


def test_a_load_configuration_that_leads_out_of_the_image() -> None:
    changed = in_directory("system32_only.dll", 10, 32, 0x7FFF0000, "Q")
    assert "guard table of its load configuration at 0x7fff0000" in refusals(changed)


def test_names_in_the_headers() -> None:
    content = bytearray(read_pe_sample("plain.dll"))
    start = int.from_bytes(content[60:64], "little")
    exports, _, imports = struct.unpack_from("<3I", content, start + DIRECTORIES)
    (names,) = struct.unpack_from("<I", content, offset_of(bytes(content), exports) + 32)
    (lookups,) = struct.unpack_from("<I", content, offset_of(bytes(content), imports))
    struct.pack_into("<I", content, offset_of(bytes(content), names), 0x10)
    struct.pack_into("<Q", content, offset_of(bytes(content), lookups), 0x12)
    assert "has the name of an export at address 0x10, in its headers" in refusals(bytes(content))
    assert "has the name of an import at address 0x12, in its headers" in refusals(bytes(content))


def test_an_export_beyond_the_image() -> None:
    content = read_pe_sample("plain.dll")
    start = int.from_bytes(content[60:64], "little")
    (address,) = struct.unpack_from("<I", content, start + DIRECTORIES)
    (functions,) = struct.unpack_from("<I", content, offset_of(content, address) + 28)
    changed = bytearray(content)
    struct.pack_into("<I", changed, offset_of(content, functions), 0x7FFF0000)
    assert "exports address 0x7fff0000, but its image has" in refusals(bytes(changed))


BASE = 0x180000000


@pytest.mark.parametrize(
    ("data", "index", "fault"),
    [
        ((0, 0), BASE + 0x2000, ""),
        ((BASE + 0x2000, BASE + 0x10002000), BASE, "data from address 0x2000 to 0x10002000"),
        ((0, 0), BASE + 0x10000000, "its thread-local storage at address 0x10000000"),
    ],
)
def test_thread_local_storage(data: tuple[int, int], index: int, fault: str) -> None:
    whole = read_pe_sample("plain.dll")
    (place,) = struct.unpack_from("<I", whole, int.from_bytes(whole[60:64], "little") + 24 + 56)
    content = add_section("plain.dll", ".tls", struct.pack("<4Q2I", *data, index, 0, 0, 0))
    at, kind = directory(TLS)
    found = refusals(patched(content, ((at, kind), place), ((at + 4, kind), 40)))
    assert fault in found if fault else found == ""


def test_a_table_of_exports_is_not_in_the_headers() -> None:
    content = in_directory("plain.dll", EXPORT, 7, 0x8)
    assert "has the addresses of its exports at address 0x8, in its headers" in refusals(content)
