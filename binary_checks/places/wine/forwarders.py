"""Makes a DLL whose exports are another DLL's: a PE32+ image with an export table and no code."""

from __future__ import annotations

import struct
from collections.abc import Mapping

_RVA, _RAW = 0x1000, 0x200  # of the one section: in memory, in the file
_TABLES = 16  # data directories, of which the first is the export table
_BASE = 0x1_8000_0000  # where the linker puts DLLs


def make_forwarder(name: str, forwards: Mapping[str, str]) -> bytes:
    """Make a 64-bit DLL of that name; ``forwards`` leads an export to "other.function"."""
    exports = _write_exports(name, sorted(forwards.items()))
    padded = exports + bytes(-len(exports) % _RAW)
    head = _write_headers(len(exports), len(padded))
    return head + bytes(_RAW - len(head)) + padded


def _write_exports(name: str, forwards: list[tuple[str, str]]) -> bytes:
    """The export directory (PE format, 6.3): addresses within it are forwarders."""
    count, tables = len(forwards), 40
    names_at = tables + 4 * count
    ordinals_at = names_at + 4 * count
    strings = bytearray()
    strings_at = ordinals_at + 2 * count

    def add(text: str) -> int:
        place = _RVA + strings_at + len(strings)
        strings.extend(text.encode("ascii") + b"\0")
        return place

    own = add(name)
    names = [add(each) for each, _ in forwards]
    targets = [add(each) for _, each in forwards]
    rvas = (_RVA + tables, _RVA + names_at, _RVA + ordinals_at)
    directory = struct.pack("<IIHHIIIIIII", 0, 0, 0, 0, own, 1, count, count, *rvas)
    numbers = struct.pack(f"<{2 * count}I{count}H", *targets, *names, *range(count))
    return directory + numbers + bytes(strings)


def _write_headers(size: int, raw: int) -> bytes:
    dos = struct.pack("<2s58xI", b"MZ", 64)
    # x86-64, one section, an executable image that is a DLL and knows large addresses
    coff = struct.pack("<4sHHIIIHH", b"PE\0\0", 0x8664, 1, 0, 0, 0, 112 + 8 * _TABLES, 0x2022)
    optional = struct.pack(
        "<HBBIIIIIQIIHHHHHHIIIIHHQQQQII",
        *(0x20B, 0, 0, 0, raw, 0, 0, _RVA, _BASE, 0x1000, _RAW),
        *(6, 0, 0, 0, 6, 0, 0),  # for Windows 6.0 and later
        *(_RVA + (raw + 0xFFF & ~0xFFF), _RAW, 0, 3, 0x140),  # console; moved at will, no code
        *(1 << 20, 1 << 12, 1 << 20, 1 << 12, 0, _TABLES),
    )
    directories = struct.pack("<II", _RVA, size) + bytes(8 * (_TABLES - 1))
    section = struct.pack("<8sIIIIIIHHI", b".edata", size, _RVA, raw, _RAW, 0, 0, 0, 0, 0x40000040)
    return dos + coff + optional + directories + section
