"""Why Windows refuses a mapped PE image, or dies over it: addresses that lead nowhere.

The loader follows them before any code of the image runs: its entry point, the directories,
thread-local storage.
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
    TLS,
)
from binary_checks.objects.pe.image import MappedImage
from binary_checks.objects.pe.sections import Section, find_inaccessible

_TLS = {32: Struct("<3I4x"), 64: Struct("<3Q8x")}  # start, end, index, callbacks


def find_address_faults(image: MappedImage, sections: Sequence[Section]) -> Iterator[str]:
    """Say which addresses lead nowhere: each goes on from its path. Raises MalformedError."""
    yield from _judge_entry_point(image, sections)
    yield from _judge_directories(image, sections)
    yield from _judge_tls(image)


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


def _judge_tls(image: MappedImage) -> Iterator[str]:
    start, _ = image.header.directories[TLS]
    if not start:  # its size is not looked at by the loader
        return
    header = image.header
    fields = image.unpack(_TLS[header.bits], start, "thread-local storage")
    first, last, index = (field - header.image_base for field in fields)
    if first != last and not 0 <= first <= last <= header.image_size:
        yield f"has thread-local data from address {first:#x} to {last:#x}, beyond the image"
    if not 0 <= index < header.image_size:
        yield f"has the index of its thread-local storage at address {index:#x}, beyond the image"
