"""What cubins and PTX texts state about themselves."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from binary_checks.errors import BinaryChecksError, MalformedError, Unavailable
from binary_checks.model import DeviceKind
from binary_checks.objects.device.details import read_cubin, read_ptx
from binary_checks.objects.device.entries import DeviceEntry, list_entries
from fixtures.samples import expected_device_details, read_fatbin_sample
from tests.objects.byte_sources import Bytes

pytest.importorskip("zstandard")
pytest.importorskip("lz4.block")

NEWEST = "toolkit_13.5.fatbin"


def entries_of(sample: str) -> list[DeviceEntry]:
    return list(list_entries(Bytes(read_fatbin_sample(sample))))


def cubin_of(sample: str, place: int) -> bytes:
    return entries_of(sample)[place].unpack()


@pytest.mark.parametrize(("sample", "expected"), expected_device_details().items())
def test_architectures_and_toolkits_are_those_of_the_compilers(
    sample: str, expected: list[dict[str, Any]]
) -> None:
    for entry, said in zip(entries_of(sample), expected, strict=True):
        if entry.kind is DeviceKind.PTX:
            assert read_ptx(entry.unpack()) == (said["version"], said["architecture"])
            continue
        found = read_cubin(entry.unpack())
        assert (found.architecture, found.toolkit) == (said["architecture"], said["toolkit"])


def change(content: bytes, old: bytes, new: bytes) -> bytes:
    assert content.count(old) >= 1
    return content.replace(old, new, 1)


def section_header(content: bytes, name: bytes) -> int:
    """Return the offset of the header of a section."""
    (table,) = struct.unpack_from("<Q", content, 40)
    count, names = struct.unpack_from("<HH", content, 60)
    strings = struct.unpack_from("<Q", content, table + names * 64 + 24)[0]
    for index in range(count):
        at = table + index * 64
        start = strings + struct.unpack_from("<I", content, at)[0]
        if content[start:].startswith(name + b"\0"):
            return int(at)
    raise AssertionError(name)


def with_size(content: bytes, name: bytes, size: int) -> bytes:
    at = section_header(content, name) + 32
    return content[:at] + size.to_bytes(8, "little") + content[at + 8 :]


def test_code_that_was_finalized_is_of_the_toolkit_that_compiled_it() -> None:
    cubin = cubin_of(NEWEST, 1)
    finalized = change(cubin, b"release 13.5, V", b"release 13.7, V")
    assert read_cubin(finalized).toolkit == "13.5"  # still stated by .note.nv.cuinfo


@pytest.mark.parametrize(
    ("number", "toolkit"), [(39, "13.5"), (40, "4.0"), (990, "99.0"), (991, "13.5")]
)
def test_a_number_that_no_toolkit_has_is_left(number: int, toolkit: str) -> None:
    cubin = bytearray(cubin_of(NEWEST, 1))
    note = cubin.index(struct.pack("<III", 12, 8, 1000))
    struct.pack_into("<H", cubin, note + 28, number)
    assert read_cubin(bytes(cubin)).toolkit == toolkit


@pytest.mark.parametrize(
    "name", [b".note.nv.tkinfo", b".symtab", b".strtab", b".shstrtab", b".nv.info"]
)
@pytest.mark.parametrize("size", [1 << 20, 1 << 32, (1 << 64) - 1])
def test_a_section_that_ends_beyond_the_cubin_is_named(name: bytes, size: int) -> None:
    with pytest.raises(BinaryChecksError, match=r"beyond the end|ends beyond|bytes; at most"):
        read_cubin(with_size(cubin_of(NEWEST, 1), name, size))


def test_a_note_whose_sizes_lie_is_left() -> None:
    cubin = cubin_of(NEWEST, 1)
    lying = change(cubin, b"\x0c\0\0\0\x8c\0\0\0", b"\xff" * 8)
    assert read_cubin(lying).toolkit == "13.5"  # still stated by the text itself
    silent = change(lying, b"release 13.5, V", b"release ??.?, V")
    silent = change(silent, b"\x0c\0\0\0\x08\0\0\0", b"\xff" * 8)
    assert read_cubin(silent).toolkit == "13.5"  # EIATTR_CUDA_API_VERSION of its kernels


def test_an_attribute_that_ends_beyond_its_section_is_named() -> None:
    cubin = change(cubin_of(NEWEST, 1), b"\x04\x37\x04\0", b"\x04\x37\xff\xff")
    silent = change(cubin, b"release 13.5, V", b"release ??.?, V")
    silent = change(silent, b"\x0c\0\0\0\x08\0\0\0", b"\xff" * 8)
    with pytest.raises(MalformedError, match=r"ends beyond \.nv\.info"):
        read_cubin(silent)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is not a cubin"),
        (b"MZ\x90\0", "it is not a cubin"),
        (b"\x7fELF", "ends within the ELF identification"),
    ],
)
def test_what_is_no_cubin_is_named(content: bytes, reason: str) -> None:
    with pytest.raises(MalformedError, match=reason):
        read_cubin(content)


def test_an_elf_file_for_a_host_is_no_cubin() -> None:
    cubin = bytearray(cubin_of(NEWEST, 1))
    cubin[18] = 62
    with pytest.raises(MalformedError, match="for machine 62, not for a GPU"):
        read_cubin(bytes(cubin))


def test_a_cubin_of_32_bits_is_not_inspected() -> None:
    cubin = bytearray(cubin_of(NEWEST, 1))
    cubin[4] = 1
    struct.pack_into("<HHIIIIIHHHHHH", cubin, 16, 2, 190, 1, 0, 0, 0, 0, 52, 32, 0, 0, 0, 0)
    with pytest.raises(Unavailable, match="32 bits"):
        read_cubin(bytes(cubin))


@pytest.mark.parametrize("length", range(0, 13916, 97))
def test_a_cubin_that_is_cut_anywhere_is_broken_or_unread(length: int) -> None:
    with pytest.raises(BinaryChecksError):
        read_cubin(cubin_of(NEWEST, 1)[:length])


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (b"", ".version"),
        (b"\xff\xfe\0" * 100, ".version"),
        (b".version 8.4\n", ".target"),
        (b".version 8.4.1\n.target sm_90\n", ".version"),
        (b".version 99999999999999999.0\n.target sm_90\n", ".version"),
        (b".version 8.4\n.target sm_90axe\n", ".target"),
        (b"\n" * (1 << 20) + b".version 8.4\n.target sm_90\n", ".version"),
    ],
)
def test_what_is_no_ptx_is_named(text: bytes, missing: str) -> None:
    with pytest.raises(MalformedError, match=f"it has no readable \\{missing}"):
        read_ptx(text)


def test_comments_may_stand_before_the_directives_of_ptx() -> None:
    text = b"//\n// Generated by NVIDIA NVVM Compiler\n//\n\n.version 8.8\n.target sm_90a, debug\n"
    assert read_ptx(text) == ("8.8", "sm_90a")
