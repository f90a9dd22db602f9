"""Reads the Mach-O header, and before it the fat header that says where the slices lie.

CPUs are spelled as the rest of the model spells architectures.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from struct import Struct
from typing import Final, NamedTuple

from binary_checks.errors import MalformedError
from binary_checks.objects.limits import LimitedSource

MH_OBJECT: Final = 1
MH_EXECUTE: Final = 2
MH_DYLIB: Final = 6
MH_BUNDLE: Final = 8
MH_DSYM: Final = 10

MH_TWOLEVEL: Final = 0x80

THIN: Final = {
    b"\xfe\xed\xfa\xce": (32, ">"),
    b"\xfe\xed\xfa\xcf": (64, ">"),
    b"\xce\xfa\xed\xfe": (32, "<"),
    b"\xcf\xfa\xed\xfe": (64, "<"),
}
FAT: Final = {b"\xca\xfe\xba\xbe": Struct(">5I"), b"\xca\xfe\xba\xbf": Struct(">2I2QI4x")}
_HEADER_SIZE = {32: 28, 64: 32}
_HIGHEST_ALIGNMENT = 15  # bits
_ARCHIVE = b"!<arch>\n"

CPU_64_BITS = 0x01000000
_SUBTYPE = 0x00FFFFFF
"""Of cpusubtype: the rest are capabilities, such as the version of arm64e's pointers."""

_NAMES = {
    0x00000007: "i686",
    0x01000007: "x86_64",
    0x0000000C: "armv7l",
    0x0100000C: "aarch64",
    0x0200000C: "arm64_32",
    0x00000012: "ppc",
    0x01000012: "ppc64",
}
_SPECIAL = {
    (0x01000007, 8): "x86_64h",  # Haswell and newer: other machines do not load it
    (0x0100000C, 2): "arm64e",  # Python is no arm64e process and does not load it
}


compile_layout = cache(Struct)
"""All slices have the same few."""


class MachHeader(NamedTuple):
    """What the Mach-O header says."""

    bits: int
    byte_order: str  # as struct spells it
    cpu_type: int
    cpu_subtype: int
    type: int
    command_count: int
    commands_size: int  # bytes
    flags: int

    @property
    def commands_offset(self) -> int:
        """Where the load commands begin, in bytes from the start of the slice."""
        return _HEADER_SIZE[self.bits]

    def struct(self, layout: str) -> Struct:
        """A compiled structure in the file's byte order."""
        return compile_layout(self.byte_order + layout)


class Slice(LimitedSource):
    """A part of a fat file; of a thin file, all of it."""

    def __init__(
        self, source: LimitedSource, start: int, size: int, architecture: str = ""
    ) -> None:
        super().__init__(source, source.factor)
        self.start = start
        self.size = size
        self.architecture = architecture  # that the fat header names

    def read(self, offset: int, length: int) -> bytes:
        """Exactly length bytes from offset of the slice."""
        if offset < 0 or length < 0 or offset + length > self.size:
            raise MalformedError(f"{length} bytes are asked for, the slice has {self.size}", offset)
        return self._source.read(self.start + offset, length)


def read_slices(source: LimitedSource) -> tuple[Slice, ...]:
    """The objects of a fat file, or the one of a thin file. Raises MalformedError.

    Static libraries, which may be fat too, are other objects (`is_archive`).
    """
    if source.size < 8:
        raise MalformedError("the file ends within the magic number", source.size)
    layout = FAT.get(source.read(0, 4))
    if layout is None:
        return (Slice(source, 0, source.size),)
    slices = tuple(_read_fat(source, layout))
    _refuse_overlaps(slices)
    return slices


def is_archive(source: Slice) -> bool:
    """Whether it is a static library for one architecture."""
    return source.read(0, min(8, source.size)) == _ARCHIVE


def _read_fat(source: LimitedSource, layout: Struct) -> Iterator[Slice]:
    count = int.from_bytes(source.read(4, 4), "big")
    if 8 + count * layout.size > source.size:
        raise MalformedError("the file ends within the fat header", source.size)
    names = set()
    rows = layout.iter_unpack(source.read(8, count * layout.size))
    for number, (cpu_type, cpu_subtype, start, size, alignment) in enumerate(rows):
        name = architecture_of(cpu_type, cpu_subtype)
        if start + size > source.size or start < 8 + count * layout.size:
            place = f"from byte {start:#x} to {start + size:#x}"
            raise MalformedError(
                f"the slice for {name} lies {place}, the file has {source.size:#x} bytes",
                8 + number * layout.size,
            )
        if alignment > _HIGHEST_ALIGNMENT:
            reason = f"the slice for {name} is aligned to 2**{alignment} bytes"
            raise MalformedError(reason, 8 + number * layout.size)
        if name in names:
            raise MalformedError(f"two slices for {name}", 8 + number * layout.size)
        names.add(name)
        yield Slice(source, start, size, name)


def _refuse_overlaps(slices: tuple[Slice, ...]) -> None:
    end = 0
    for item in sorted(slices, key=lambda item: item.start):
        if item.start < end:
            raise MalformedError(f"the slice for {item.architecture} overlaps another", item.start)
        end = item.start + item.size


def read_header(source: Slice) -> MachHeader:
    """Read and verify the header and the extent of the load commands. Raises MalformedError."""
    start = source.read(0, min(32, source.size))
    if start[:4] not in THIN:
        raise MalformedError(f"a slice begins with {start[:4].hex(' ')}, no Mach-O header")
    bits, byte_order = THIN[start[:4]]
    if len(start) < _HEADER_SIZE[bits]:
        raise MalformedError("the file ends within the Mach-O header", len(start))
    header = MachHeader(bits, byte_order, *compile_layout(byte_order + "6I").unpack_from(start, 4))
    end = header.commands_offset + header.commands_size
    if end > source.size:
        raise MalformedError(
            f"the load commands end at byte {end:#x}, the file has {source.size:#x} bytes",
            source.size,
        )
    found = architecture_of(header.cpu_type, header.cpu_subtype)
    if source.architecture and found != source.architecture:
        raise MalformedError(f"the fat header says {source.architecture}, the slice {found}", 4)
    return header


def architecture_of(cpu_type: int, cpu_subtype: int) -> str:
    """The architecture's name; ``cpu 0x…`` for one that has none here."""
    special = _SPECIAL.get((cpu_type, cpu_subtype & _SUBTYPE))
    return special or _NAMES.get(cpu_type, f"cpu {cpu_type:#x}")
