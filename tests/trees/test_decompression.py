"""Compressed streams yield their bytes in bounded pieces, or say why they do not."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from binary_checks.errors import BrokenDataError, GatherError
from binary_checks.trees import decompression
from binary_checks.trees.decompression import (
    Start,
    expand,
    find_bzip2,
    find_gzip,
    find_xz,
    find_zstandard,
)

DATA = random.Random(1).randbytes(1000) * 3000


class Format(NamedTuple):
    compress: Callable[[bytes], bytes]
    start: Start


STANDARD = {
    "bzip2": (bz2.compress, find_bzip2),
    "gzip": (gzip.compress, find_gzip),
    "xz": (lzma.compress, find_xz),
}


@pytest.fixture(params=[*STANDARD, "zstandard"])
def form(request: pytest.FixtureRequest) -> Format:
    if request.param in STANDARD:
        compress, find = STANDARD[request.param]
        return Format(compress, find())
    library = pytest.importorskip("zstandard")
    compressor = library.ZstdCompressor(write_checksum=True)
    return Format(compressor.compress, find_zstandard())


def cut(data: bytes, length: int = 65536) -> Iterator[bytes]:
    return (data[at : at + length] for at in range(0, len(data), length))


def refusal(form: Format, packed: bytes) -> str:
    with pytest.raises(BrokenDataError) as caught:
        list(expand(cut(packed), form.start))
    return str(caught.value)


@pytest.mark.parametrize("length", [1, 7, 1000, 65536])
def test_a_stream_expands_however_it_arrives(form: Format, length: int) -> None:
    packed = form.compress(DATA[:20_000] if length < 1000 else DATA)
    found = b"".join(expand(cut(packed, length), form.start))
    assert found == (DATA[:20_000] if length < 1000 else DATA)


def test_streams_one_behind_the_other_are_one_file(form: Format) -> None:
    packed = form.compress(b"a" * 1000) + form.compress(b"b" * 1000)
    assert b"".join(expand([packed], form.start)) == b"a" * 1000 + b"b" * 1000


def test_a_stream_cut_anywhere_is_truncated(form: Format) -> None:
    packed = form.compress(DATA)
    for length in (0, 1, 3, 10, len(packed) // 2, len(packed) - 1):
        assert refusal(form, packed[:length]) == "truncated: its compressed data end too early"


def test_bytes_that_were_changed_are_broken(form: Format) -> None:
    packed = bytearray(form.compress(DATA))
    packed[200] ^= 0xFF
    assert refusal(form, bytes(packed)) == "its compressed data are broken"


def test_what_follows_the_data_is_no_part_of_them(form: Format) -> None:
    assert refusal(form, form.compress(DATA) + b"junk" * 9) == "bytes follow its compressed data"


def test_another_kind_of_file_is_broken(form: Format) -> None:
    assert refusal(form, b"PK\3\4" + bytes(100)) == "its compressed data are broken"


def test_a_bomb_is_given_up(form: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompression, "_HARMLESS", 1 << 20)
    packed = form.compress(bytes(64 << 20))
    given = 0
    with pytest.raises(BrokenDataError, match="which is not read"):
        for piece in expand(cut(packed, 1000), form.start):
            given += len(piece)
            assert len(piece) <= 33 << 20
    assert given < 64 << 20


def test_a_window_of_a_gigabyte_is_not_opened() -> None:
    library = pytest.importorskip("zstandard")
    wide = library.ZstdCompressionParameters(window_log=30, enable_ldm=True)
    compressor = library.ZstdCompressor(compression_params=wide).compressobj()
    packed = compressor.compress(DATA) + compressor.flush()
    assert refusal(Format(bz2.compress, find_zstandard()), packed) == (
        "it needs more than 128 MiB of memory"
    )


def test_without_a_library_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(GatherError, match=r"install binary-checks\[conda\]"):
        find_zstandard()
