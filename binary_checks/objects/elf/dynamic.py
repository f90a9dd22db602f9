"""Reads the dynamic segment: the entries by which a loader finds everything else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from binary_checks.errors import MalformedError, TooLarge
from binary_checks.objects.elf.image import MappedImage
from binary_checks.objects.elf.segments import PT_DYNAMIC, Segment

DT_NEEDED: Final = 1
DT_HASH: Final = 4
DT_STRTAB: Final = 5
DT_SYMTAB: Final = 6
DT_RELA: Final = 7
DT_RELASZ: Final = 8
DT_STRSZ: Final = 10
DT_RELAENT: Final = 9
DT_SYMENT: Final = 11
DT_SONAME: Final = 14
DT_RPATH: Final = 15
DT_REL: Final = 17
DT_RELSZ: Final = 18
DT_RELENT: Final = 19
DT_TEXTREL: Final = 22
DT_PLTRELSZ: Final = 2
DT_PLTREL: Final = 20
DT_JMPREL: Final = 23
DT_BIND_NOW: Final = 24
DT_INIT_ARRAY: Final = 25
DT_FINI_ARRAY: Final = 26
DT_INIT_ARRAYSZ: Final = 27
DT_FINI_ARRAYSZ: Final = 28
DT_RUNPATH: Final = 29
DT_FLAGS: Final = 30
DT_RELRSZ: Final = 35
DT_RELR: Final = 36
DT_RELRENT: Final = 37
DT_GNU_HASH: Final = 0x6FFFFEF5
DT_VERSYM: Final = 0x6FFFFFF0
DT_FLAGS_1: Final = 0x6FFFFFFB
DT_VERDEF: Final = 0x6FFFFFFC
DT_VERDEFNUM: Final = 0x6FFFFFFD
DT_VERNEED: Final = 0x6FFFFFFE
DT_VERNEEDNUM: Final = 0x6FFFFFFF

DF_TEXTREL: Final = 4
DF_BIND_NOW: Final = 8
DF_STATIC_TLS: Final = 0x10
DF_1_NOW: Final = 1
DF_1_NOOPEN: Final = 0x40
DF_1_NODEFLIB: Final = 0x800
DF_1_PIE: Final = 0x08000000

_MOST_ENTRIES = 1 << 16
_MOST_STRINGS = 1 << 28
"""Bytes of DT_STRTAB that are read; the largest libraries have some ten million."""
_LONGEST = 64 * 1024
"""Bytes that a string of the dynamic string table may have and be read."""


class Dynamic:
    """The entries of PT_DYNAMIC and their strings; empty for a file that has none."""

    __slots__ = ("_entries", "_last", "strings")

    def __init__(self, entries: Iterable[tuple[int, int]] = (), strings: bytes = b"") -> None:
        self._entries = tuple(entries)
        self._last = dict(self._entries)  # a loader too keeps the last of a tag
        self.strings = strings  # DT_STRTAB: ends with NUL, and no string in it is absurdly long

    def __bool__(self) -> bool:
        return bool(self._entries)

    def __contains__(self, tag: int) -> bool:
        return tag in self._last

    def value(self, tag: int) -> int:
        """The entry's value or address; 0 when there is none."""
        return self._last.get(tag, 0)

    def string(self, tag: int) -> str:
        """The string that the entry names; "" when there is none."""
        return self.text(self._last[tag]) if tag in self._last else ""

    def texts(self, tag: int) -> tuple[str, ...]:
        """The strings of every entry of that tag, in order."""
        return tuple(self.text(value) for kind, value in self._entries if kind == tag)

    def search_path(self, tag: int) -> tuple[str, ...]:
        """The elements of DT_RPATH or DT_RUNPATH; () when there is no such entry."""
        return tuple(self.string(tag).split(":")) if tag in self._last else ()

    def text(self, offset: int) -> str:
        """The string at that place of the string table; raises MalformedError outside of it."""
        if offset >= len(self.strings):
            raise MalformedError(f"a string at {offset:#x}, beyond the end of DT_STRTAB")
        return decode(self.strings[offset : self.strings.index(b"\0", offset)])


def decode(name: bytes) -> str:
    """Names are UTF-8 by habit only; bytes that are not stay visible as escapes."""
    return name.decode("utf-8", "backslashreplace")


def read_dynamic(image: MappedImage, segments: Iterable[Segment]) -> Dynamic:
    """Read PT_DYNAMIC and its string table.

    Raises MalformedError, or TooLarge for more than is read.
    """
    segment = next((s for s in segments if s.type == PT_DYNAMIC), None)
    if segment is None:
        return Dynamic()
    layout = image.header.struct("II" if image.header.bits == 32 else "QQ")
    length = segment.file_size - segment.file_size % layout.size
    table = image.read(segment.address, length, "PT_DYNAMIC", _MOST_ENTRIES * layout.size)
    entries = []
    for tag, value in layout.iter_unpack(table):
        if tag == 0:
            break
        entries.append((tag, value))
    else:
        raise MalformedError("PT_DYNAMIC has no DT_NULL", segment.offset)
    return Dynamic(entries, _read_strings(image, Dynamic(entries)))


def _read_strings(image: MappedImage, dynamic: Dynamic) -> bytes:
    size = dynamic.value(DT_STRSZ)
    strings = image.read(dynamic.value(DT_STRTAB), size, "DT_STRTAB", _MOST_STRINGS)
    if strings and strings[-1]:
        raise MalformedError("DT_STRTAB does not end with NUL")
    for start in range(0, size - _LONGEST + 1, _LONGEST):
        if strings.find(b"\0", start, start + _LONGEST) < 0:
            reason = f"DT_STRTAB holds a string of more than {_LONGEST} bytes, none so long is read"
            raise TooLarge(reason)
    return strings
