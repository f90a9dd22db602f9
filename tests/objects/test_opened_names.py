"""Names for dlopen are found if they are whole strings of read-only data."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binary_checks.model import OpenedNames
from binary_checks.objects import LimitedSource, strings
from binary_checks.objects.device.scanner import DeviceScanner
from binary_checks.objects.strings import (
    ELF_NAMES,
    PE_NAMES,
    NamePattern,
    NameScanner,
    find_opened,
)
from fixtures.build_fatbin import container, entry
from tests.objects.byte_sources import Bytes


def search(
    content: bytes, pattern: NamePattern = ELF_NAMES, known: tuple[str, ...] = ()
) -> OpenedNames:
    source = LimitedSource(Bytes(content))
    return find_opened(source, None, pattern, known, [(0, len(content))])


def stream(content: bytes, cuts: list[int], scanner: NameScanner) -> NameScanner:
    start = 0
    for length in (*cuts, len(content)):
        assert list(scanner.see(content[start : start + length])) == []
        start += length
    return scanner


@pytest.mark.parametrize(
    "name",
    [
        "libnuma.so",
        "libcudnn_engines_precompiled.so.9",
        "libnvrtc-builtins.so.13.5",
        "libstdc++.so.6",
        "libgtk-x11-2.0.so.0",
    ],
)
def test_a_whole_string_that_is_a_librarys_name_is_told(name: str) -> None:
    assert search(b"one\0" + name.encode() + b"\0two\0").names == (name,)
    assert search(name.encode() + b"\0").names == (name,)


@pytest.mark.parametrize(
    "text",
    [
        "lib%s.so",
        "lib%s.so.%d",
        "libx.so.%d",
        "/usr/lib/libx.so",
        "$ORIGIN/libx.so",
        "cannot open libx.so",
        "libx.so is missing",
        "libx.socket",
        "libx.so.",
        "libx.so.1a",
        "lib.so",
        "plugin.so",
        ".so",
        "libx.so\n",
        "lib\N{LATIN SMALL LETTER E WITH ACUTE}.so",
    ],
)
def test_no_other_string_is_told(text: str) -> None:
    assert search(b"\0" + text.encode() + b"\0").names == ()


def test_a_number_may_stand_before_a_name() -> None:
    assert search(b"\xff\xff\xff\xfflibtcm.so.1\0").names == ("libtcm.so.1",)
    assert search(b"\0\xffqsole32.dll\0", PE_NAMES).names == ()


def test_a_name_without_an_end_is_not_told() -> None:
    assert search(b"\0libx.so").names == ()


def test_a_name_longer_than_a_file_may_be_called_is_not_told() -> None:
    assert search(b"\0lib" + b"x" * 249 + b".so\0").names == ("lib" + "x" * 249 + ".so",)
    assert search(b"\0lib" + b"x" * 250 + b".so\0").names == ()


def test_names_are_sorted_and_told_once_without_those_that_are_known() -> None:
    content = b"libz.so\0liba.so\0libz.so\0libKnown.so.1\0"
    assert search(content, known=("LIBKNOWN.SO.1",)) == OpenedNames(names=("liba.so", "libz.so"))


def test_names_of_dlls_are_told_in_both_widths() -> None:
    wide = "\0nvcuda.dll\0WS2_32.DLL\0".encode("utf-16-le")
    content = b"\0nvml.dll\0KERNEL32.DLL\0%s.dll\0.dll\0C:\\x.dll\0" + wide
    assert search(content, PE_NAMES).names == ("KERNEL32.DLL", "nvcuda.dll", "nvml.dll")


def test_a_wide_path_is_no_name() -> None:
    assert search("\0C:\\nvml.dll\0x nvml.dll\0".encode("utf-16-le"), PE_NAMES).names == ()


def test_a_wide_name_longer_than_a_file_may_be_called_is_not_told() -> None:
    longest = "x" * 251 + ".dll"
    assert search(f"\0{longest}\0y{longest}y\0".encode("utf-16-le"), PE_NAMES).names == (longest,)
    assert search(f"\0xxxxxx{longest}\0".encode("utf-16-le"), PE_NAMES).names == ()


def test_the_end_of_a_text_before_it_is_no_letter_of_a_wide_name() -> None:
    content = b"\0some texts\0" + "kernel32.dll\0".encode("utf-16-le")
    assert search(content, PE_NAMES).names == ("kernel32.dll",)


def test_a_number_before_a_wide_name_takes_no_letter_of_it() -> None:
    content = b"\0\0\x17\x90" + "kernel32.dll\0".encode("utf-16-le")
    assert search(content, PE_NAMES).names == ("kernel32.dll",)


PIECES = st.sampled_from(
    [
        *(b"\0", b"\xff", b"lib", b".so", b".1", b"x", b"/", b" ", b"y" * 200),
        *(b"libx.so", b"libx.so.2\0", b"\0" * 40),
    ]
)


def names_by_expression(content: bytes) -> Iterator[str]:
    name = rb"(?<![ -~])lib[A-Za-z0-9_+.-]+?\.so(\.[0-9]+)*(?=\0)"
    for found in re.finditer(name, content):
        if len(found[0]) <= 255:
            yield found[0].decode()


@given(st.lists(PIECES, max_size=60), st.integers(1, 300))
def test_blocks_cut_no_name(pieces: list[bytes], block: int) -> None:
    content = b"".join(pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strings, "_BLOCK", block)
        assert search(content).names == tuple(sorted(set(names_by_expression(content))))


def test_more_names_than_any_library_has_are_not_all_kept_and_that_is_said() -> None:
    content = b"".join(b"lib%07d.so\0" % number for number in range(10_000))
    found = search(content)
    assert len(found.names) == 4096
    assert found.unread == "it has more than 4096 names"


def test_more_places_than_any_library_has_are_not_all_inspected_and_that_is_said() -> None:
    found = search(b"libx.so\0" * 100_000)
    assert found.names == ("libx.so",)
    assert found.unread == "it has more than 65536 places that look like names"


def test_places_that_are_dear_to_look_at_are_done_with_soon() -> None:
    for text in (b"x" * 300 + b".so", b"x\0" * 300 + b".\0d\0l\0l\0\0\0"):
        for pattern in (ELF_NAMES, PE_NAMES):
            assert not search(text * 20_000, pattern).names


@given(
    st.lists(PIECES, max_size=60),
    st.integers(0, 12_000),
    st.lists(st.integers(0, 12_000), max_size=8),
)
def test_what_streams_by_is_searched_whatever_the_pieces(
    pieces: list[bytes], gap: int, cuts: list[int]
) -> None:
    half = b"".join(pieces)
    content = half + b"\xff" * gap + half
    scanner = stream(content, cuts, NameScanner([(0, len(content))], ELF_NAMES))
    found = scanner.conclude(frozenset(), ((0, len(content)),))
    assert found == OpenedNames(names=tuple(sorted(set(names_by_expression(content)))))


def test_what_lies_outside_of_what_was_wanted_or_searched_is_not_told() -> None:
    content = b"\0liba.so\0" + b"\0libb.so\0" + b"\0libc.so\0"
    scanner = stream(content, [5, 9], NameScanner([(0, 18)], ELF_NAMES))
    assert scanner.conclude(frozenset(), ((9, 27),)) == OpenedNames(
        names=("libb.so",), unread="9 bytes of its read-only data were not searched"
    )


def test_what_is_told_to_be_code_is_not_searched_and_names_right_behind_it_are() -> None:
    def is_code(piece: bytes, start: int, end: int, _offset: int) -> bool:
        return piece[start:end].count(b"\x48") > (end - start) // 2

    code = b"\x48" * 20_000 + b"\0libcode.so\0" + b"\x48" * 19_000 + b"\0liba."
    content = code + b"so\0libb.so\0".ljust(20_000, b"\0")
    extents = ((0, len(content)),)
    scanner = stream(content, [len(code)], NameScanner(extents, ELF_NAMES, is_code=is_code))
    found = scanner.conclude(frozenset(), extents)
    assert found.names == ("liba.so", "libb.so")
    assert found.unread.endswith("bytes of its read-only data were not searched")


def test_code_for_a_gpu_is_passed_over_wherever_it_lies() -> None:
    payload = b"\0libgpu.so\0".ljust(50_000, b"\x48")
    device = container(entry(payload=payload))
    content = b"\0liba.so\0".ljust(64, b"\0") + device + b"\0libb.so\0".ljust(9000, b"\0")
    extents = ((0, len(content)),)
    for piece in (1000, 7000, len(content)):
        walker = DeviceScanner(extents, len(content))
        scanner = NameScanner(extents, ELF_NAMES, device=walker)
        for start in range(0, len(content), piece):
            part = content[start : start + piece]
            assert all(kept for _, kept in walker.see(part))
            assert scanner.see(part) == ()
        expected = OpenedNames(names=("liba.so", "libb.so"))
        assert scanner.conclude(frozenset(), extents) == expected
