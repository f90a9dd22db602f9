"""Objects are recognised by their first bytes."""

from __future__ import annotations

import struct

import pytest

from binary_checks import objects
from binary_checks.model import Format, MalformedObject, ObjectReader
from binary_checks.objects.byte_source import merge
from tests.objects.byte_sources import Bytes


def _fat(count: int) -> bytes:
    return struct.pack(">II", 0xCAFEBABE, count) + bytes(100)


def _pe(signature: bytes = b"PE\0\0", start: int = 0x80) -> bytes:
    return (b"MZ" + bytes(58) + struct.pack("<I", start)).ljust(0x80, b"\0") + signature + bytes(20)


def test_the_module_is_an_object_reader() -> None:
    reader: ObjectReader = objects
    assert reader.recognise(b"\x7fELF") is Format.ELF


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"\x7fELF" + bytes(60), Format.ELF),
        (b"\xcf\xfa\xed\xfe" + bytes(60), Format.MACHO),
        (b"\xfe\xed\xfa\xce" + bytes(60), Format.MACHO),
        (_fat(1), Format.MACHO),
        (_fat(44), Format.MACHO),
        (_fat(45), None),  # a Java class file of version 45.0
        (_fat(0x0003002D), None),  # 45.3, the oldest
        (_fat(0), None),
        (b"MZ" + bytes(62), Format.PE),
        (b"#!/bin/sh\n", None),
        (b"!<arch>\n", Format.ARCHIVE),
        (b"!<thin>\n", Format.ARCHIVE),
        (b"\x50\xed\x55\xba\x01\x00", Format.DEVICE),
        (b"\x50\xed\x55\xba\x07\x00", None),
        (b"__CLANG_OFFLOAD_BUNDLE__", Format.DEVICE),
        (b"__all__ = ()", None),
        (b"CCOB", Format.DEVICE),
        (b"\x7fEL", None),
        (b"", None),
    ],
)
def test_a_format_is_known_by_its_first_bytes(head: bytes, expected: Format | None) -> None:
    assert objects.recognise(head) is expected


@pytest.mark.parametrize(
    "content",
    [
        *(b"text", b"MZ"),
        b"MZ is how this text begins".ljust(200),
        _pe(b"NE\0\0"),
        _pe(start=0xFFFFFFFF),
        _pe()[:130],
        struct.pack("<HHIIIHH", 0x8664, 1, 0, 20, 0, 0, 0).ljust(200, b"\0"),  # COFF: an .obj
        struct.pack("<HHHH", 0, 0xFFFF, 0, 0x8664).ljust(200, b"\0"),  # a short import object
    ],
)
def test_a_dos_program_a_text_or_what_only_linkers_read_is_no_object(content: bytes) -> None:
    assert objects.read_objects("a.exe", Bytes(content)) == ()


def test_a_malformed_object_names_its_path_and_place() -> None:
    (found,) = objects.read_objects("demo/a.so", Bytes(b"\x7fELF"))
    assert found == MalformedObject(
        path="demo/a.so",
        format=Format.ELF,
        offset=4,
        reason="the file ends within the ELF identification",
    )


def test_ranges_are_sorted_and_merged() -> None:
    assert merge([(15, 30), (10, 20), (5, 5), (30, 31), (40, 41)]) == ((10, 31), (40, 41))
