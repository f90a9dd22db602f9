"""Reads three small directories of a PE image: debug, load configuration and .NET."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from binary_checks.errors import MalformedError
from binary_checks.objects.limits import LimitedSource
from binary_checks.objects.pe.header import CLR, DEBUG, LOAD_CONFIG
from binary_checks.objects.pe.image import MappedImage, decode

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
    source.refuse_more(count, _MOST_ENTRIES, "debug entries")
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
                source.refuse_more(length, _LONGEST_RECORD, "bytes in its CodeView record")
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
