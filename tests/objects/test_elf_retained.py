"""What is kept of a large ELF file while it streams by: the tables, wherever linkers put them."""

from __future__ import annotations

import struct

from binary_checks import objects

MIB = 1 << 20
LOAD, DYNAMIC, EH_FRAME, RELRO = 1, 2, 0x6474E550, 0x6474E552
R, RX, RW = 4, 5, 6

Row = tuple[int, int, int, int]  # type, flags, offset and size in MiB


def kept_mebibytes(*rows: Row, sections: int, size: int) -> set[int]:
    """Return the mebibytes that are kept in full; section headers begin at ``sections``."""
    headers = b"".join(
        struct.pack("<IIQQQQQQ", kind, flags, at * MIB, at * MIB, 0, length * MIB, length * MIB, 8)
        for kind, flags, at, length in rows
    )
    identity = b"\x7fELF\2\1\1" + bytes(9)
    head = identity + struct.pack(
        "<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, sections * MIB, 0, 64, 56, len(rows), 64, 30, 29
    )
    ranges = objects.plan((head + headers).ljust(4096, b"\0"), size * MIB).ranges
    return {
        number
        for number in range(size)
        if any(start <= number * MIB and (number + 1) * MIB <= end for start, end in ranges)
    }


def test_of_a_library_with_its_code_apart_no_constants_are_kept() -> None:
    kept = kept_mebibytes(
        (LOAD, R, 0, 10),
        (LOAD, RX, 10, 50),
        (LOAD, R, 60, 100),
        (EH_FRAME, R, 110, 2),
        (LOAD, RW, 160, 4),
        (DYNAMIC, RW, 162, 1),
        sections=200,
        size=201,
    )
    tables, start_of_code, unwinding = set(range(10)), {10}, {110, 111}
    data, names, headers = set(range(160, 164)), {199}, {200}
    assert kept == tables | start_of_code | unwinding | data | names | headers


def test_tables_behind_code_at_the_start_are_kept() -> None:
    kept = kept_mebibytes(
        (LOAD, RX, 0, 50), (LOAD, R, 50, 10), (EH_FRAME, R, 58, 1), sections=80, size=81
    )
    assert set(range(50, 60)) <= kept


def test_what_patchelf_moved_behind_all_else_is_kept_and_symbols_before_it_are_not() -> None:
    kept = kept_mebibytes(
        (LOAD, RX, 0, 10), (LOAD, RW, 10, 2), (LOAD, RW, 100, 6), sections=100, size=106
    )
    assert set(range(100, 106)) <= kept  # with the section headers
    assert 99 in kept  # the sections' names are there
    assert not kept & set(range(12, 98))


def test_of_lld_more_is_kept_in_front_of_the_section_headers() -> None:
    # LLD puts .shstrtab before .strtab.
    rows = ((LOAD, R, 0, 1), (LOAD, RX, 1, 10), (LOAD, RW, 11, 1), (LOAD, RW, 12, 1))
    assert 100 not in kept_mebibytes(*rows, sections=200, size=201)
    assert 100 in kept_mebibytes(*rows, (RELRO, R, 11, 1), sections=200, size=201)


def test_strings_are_not_kept_as_they_are_searched_while_they_stream_by() -> None:
    kept = kept_mebibytes((LOAD, RX, 0, 200), (EH_FRAME, R, 150, 5), sections=210, size=211)
    assert not set(range(102, 150)) & kept
    kept = kept_mebibytes(
        (LOAD, R, 0, 100), (EH_FRAME, R, 60, 5), (LOAD, RX, 100, 50), sections=160, size=161
    )
    assert not set(range(33, 60)) & kept
