"""Names for dlopen are found if they are whole strings of read-only data."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binary_checks.model import OpenedNames
from binary_checks.objects import LimitedSource, byte_source, strings
from binary_checks.objects.strings import (
    ELF_NAMES,
    PE_NAMES,
    NamePattern,
    search_strings,
)
from tests.objects.byte_sources import Bytes


def search(
    content: bytes, pattern: NamePattern = ELF_NAMES, known: tuple[str, ...] = ()
) -> OpenedNames:
    source = LimitedSource(Bytes(content))
    opened, _ = search_strings(source, [(0, len(content))], pattern, known)
    assert opened is not None
    return opened


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
    for before in (512, 514):
        at_block = bytes(strings.BLOCK - before) + ("x" * 256 + ".dll\0").encode("utf-16-le")
        assert search(at_block, PE_NAMES).names == ()


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
        patch.setattr(byte_source, "BLOCK", block)
        patch.setattr(strings, "BLOCK", block)
        assert search(content).names == tuple(sorted(set(names_by_expression(content))))


def test_all_names_are_kept() -> None:
    content = b"".join(b"lib%07d.so\0" % number for number in range(10_000))
    found = search(content)
    assert len(found.names) == 10_000


def test_places_that_are_dear_to_look_at_are_done_with_soon() -> None:
    for text in (b"x" * 300 + b".so", b"x\0" * 300 + b".\0d\0l\0l\0\0\0"):
        for pattern in (ELF_NAMES, PE_NAMES):
            assert not search(text * 20_000, pattern).names


def test_what_lies_outside_of_what_was_wanted_is_not_told() -> None:
    content = b"\0liba.so\0" + b"\0libb.so\0" + b"\0libc.so\0"
    found, _ = search_strings(LimitedSource(Bytes(content)), [(9, 18)], ELF_NAMES)
    assert found == OpenedNames(names=("libb.so",))
