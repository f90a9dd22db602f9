"""Why Windows refuses a mapped PE image, or dies over it: addresses that lead nowhere.

The loader follows them before any code of the image runs: its entry point, the blocks of base
relocations, thread-local storage, the tables of imports.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct

from binary_checks.objects.pe.debug import MAPPED
from binary_checks.objects.pe.header import (
    CLR,
    DIRECTORY_NAMES,
    IMAGE_FILE_DLL,
    IMAGE_SCN_MEM_EXECUTE,
    RELOCATIONS,
    TLS,
)
from binary_checks.objects.pe.image import MappedImage
from binary_checks.objects.pe.sections import Section, find_inaccessible

_BLOCK = Struct("<II")  # page, bytes with this head
_TLS = {32: Struct("<4I"), 64: Struct("<4Q")}  # start, end, index, callbacks
_POINTER = {32: Struct("<I"), 64: Struct("<Q")}
_MOST_CALLBACKS = 64
_ARM, _RISC_V = frozenset({0x01C0, 0x01C2, 0x01C4}), frozenset({0x5032, 0x5064})
_TYPES = {0, 1, 2, 3, 10}  # none, high, low, 32 bits, 64 bits: what every machine has
_TYPES_OF_OTHERS = {5, 7, 8}  # of ARM, of RISC-V: parts of instructions


def find_address_faults(image: MappedImage, sections: Sequence[Section]) -> Iterator[str]:
    """Say which addresses lead nowhere: each goes on from its path. Raises MalformedError."""
    yield from _judge_entry_point(image, sections)
    yield from _judge_directories(image, sections)
    yield from _judge_relocations(image)
    yield from _judge_tls(image, sections)


def _find(sections: Sequence[Section], address: int) -> Section | None:
    for section in sections:
        size = section.virtual_size or section.declared_size
        if section.address <= address < section.address + size:
            return section
    return None


def _is_code(sections: Sequence[Section], address: int) -> bool:
    """Whether the file has code there."""
    section = _find(sections, address)
    if section is None or not section.flags & IMAGE_SCN_MEM_EXECUTE:
        return False
    return address < section.address + section.size or not section.size  # a packer's: unpacked


def _judge_entry_point(image: MappedImage, sections: Sequence[Section]) -> Iterator[str]:
    header = image.header
    if header.directories[CLR][0]:
        return  # .NET finds its own, and old processors' stubs in what it compiled ahead
    if header.entry_point and not _is_code(sections, header.entry_point):
        yield f"has its entry point at address {header.entry_point:#x}, where there is no code"
    if not header.entry_point and not header.characteristics & IMAGE_FILE_DLL:
        yield "is a program without an entry point"


def _judge_directories(image: MappedImage, sections: Sequence[Section]) -> Iterator[str]:
    """What the loader reads has to be in the file, and in memory that may be read."""
    directories = image.header.directories
    hidden = find_inaccessible(sections)
    for number, (start, size) in enumerate(directories):
        if not start or number not in MAPPED:
            continue
        if not size:
            yield f"has a directory of {DIRECTORY_NAMES[number]} without a size"
            continue
        name = DIRECTORY_NAMES[number]
        if start < image.header.headers_size:
            yield f"has its directory of {name} at address {start:#x}, in its headers"
            continue
        _, available, _ = image.locate(start, f"the directory of {name}")
        if available < size:
            yield f"has its directory of {name} in memory that the file does not fill"
        if section := _find(hidden, start):
            yield f"has its directory of {name} in section {section.name!r}, which cannot be read"


def _judge_relocations(image: MappedImage) -> Iterator[str]:
    start, size = image.header.directories[RELOCATIONS]
    if not start or not size:
        return
    content = image.read(start, size, "the base relocations")
    allowed = _list_high_bytes(image.header.machine)
    place, end = 0, image.header.image_size
    while place + _BLOCK.size <= size:
        page, length = _BLOCK.unpack_from(content, place)
        if not length and not any(content[place:]):
            return  # filled up with zeros
        what = f"has a block of base relocations at address {start + place:#x} that"
        if length < _BLOCK.size or place + length > size:
            yield f"{what} claims {length:#x} bytes"
            return
        if page >= end:
            yield f"{what} is about address {page:#x}, beyond the image"
            return
        if odd := content[place + 9 : place + length : 2].translate(None, allowed):
            yield f"{what} has one of type {odd[0] >> 4}, which Windows does not know"
            return
        place += length


def _list_high_bytes(machine: int) -> bytes:
    """What the upper byte of an entry may be: four bits of type, four of an offset."""
    types = _TYPES | (_TYPES_OF_OTHERS if machine in _ARM | _RISC_V else set())
    return bytes(kind << 4 | rest for kind in sorted(types) for rest in range(16))


def _judge_tls(image: MappedImage, sections: Sequence[Section]) -> Iterator[str]:
    start, _ = image.header.directories[TLS]
    if not start:  # its size is not looked at by the loader
        return
    header = image.header
    fields = image.unpack(_TLS[header.bits], start, "thread-local storage")
    first, last, index, callbacks = (field - header.image_base for field in fields)
    if first != last and not 0 <= first <= last <= header.image_size:
        yield f"has thread-local data from address {first:#x} to {last:#x}, beyond the image"
    if not 0 <= index < header.image_size:
        yield f"has the index of its thread-local storage at address {index:#x}, beyond the image"
    if fields[3]:
        yield from _judge_callbacks(image, sections, callbacks)


def _judge_callbacks(
    image: MappedImage, sections: Sequence[Section], address: int
) -> Iterator[str]:
    pointer = _POINTER[image.header.bits]
    for _ in range(_MOST_CALLBACKS):
        (found,) = image.unpack(pointer, address, "the callbacks of thread-local storage")
        if not found:
            return
        target = found - image.header.image_base
        if not _is_code(sections, target):
            yield f"has a callback for threads at address {target:#x}, where there is no code"
            return
        address += pointer.size
