"""Texts that libraries compile into themselves are found in a file of any size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binary_checks.knowledge.linked_libraries import find_compilers, find_proof, find_version
from binary_checks.objects import LimitedSource, byte_source, strings
from binary_checks.objects.strings import search_strings
from tests.objects.byte_sources import Bytes

ZLIB = b"deflate 1.3.1 Copyright 1995-2024 Jean-loup Gailly and Mark Adler"
TLS = b'OpenSSL 3.0.13 30 Jan 2024\0OPENSSLDIR: "/usr/lib/ssl"'


def search(content: bytes) -> tuple[str, ...]:
    return search_strings(LimitedSource(Bytes(content)), [(0, len(content))], None)[1]


@pytest.mark.parametrize(
    ("text", "library", "version"),
    [
        (ZLIB.decode(), "zlib", "1.3.1"),
        ("inflate 1.2.11 Copyright 1995-2017 Mark Adler", "zlib", "1.2.11"),
        ("OpenBLAS 0.3.27  USE64BITINT DYNAMIC_ARCH NO_AFFINITY", "OpenBLAS", "0.3.27"),
        ("libpng version 1.6.58", "libpng", "1.6.58"),
        ("libjpeg-turbo version 3.1.0 (build 20250101)", "libjpeg-turbo", "3.1.0"),
        ("NCCL version 2.21.5+cuda12.4", "NCCL", "2.21.5"),
        ("CLIENT libcurl 8.18.0", "curl", "8.18.0"),
        ("FFmpeg version n7.1", "FFmpeg", "7.1"),
        ("TBB: INTERFACE VERSION\t12170", "TBB", "12170"),
        ("Operation not authorized at current processing stage", "zstd", ""),
        ("exceeded maximum protobuf size of 2GB:", "protobuf", ""),
        ("LLVM OMP version: 5.0.20140926", "LLVM OpenMP", ""),
        ("CUDA driver version is insufficient for CUDA runtime version", "CUDA runtime", ""),
        ("N10__cxxabiv117__class_type_infoE", "libstdc++", ""),
        ("GCOV_PREFIX_STRIP", "libgcov", ""),
        ("LLVM Profile Error: Failed to %s", "LLVM profile runtime", ""),
        ("third_party/boringssl-with-bazel/src/crypto/asn1/a_bool.cc", "BoringSSL", ""),
    ],
)
def test_a_text_tells_of_its_library(text: str, library: str, version: str) -> None:
    texts = search(b"\0\1" + text.encode() + b"\0")
    assert texts == search(text.encode()) == (text,)
    assert find_proof(library, texts) == text
    assert find_version(library, texts)[0] == version


@pytest.mark.parametrize(
    "text",
    [
        "version 3 of the License",
        "OpenSSL failure",
        "uses zlib-ng where there is one",
        "Copyright 1995-2024 Somebody",
        "libomp: wrong OMP version",
    ],
)
def test_other_texts_do_not(text: str) -> None:
    assert search(b"\0" + text.encode() + b"\0") == ()


def test_a_fork_of_zlib_has_the_number_of_its_origin_in_its_text() -> None:
    """Node.js calls its zlib 1.3.2.1-motley, while the text has 1.3.0.1."""
    texts = search(b"\0deflate 1.3.0.1 Copyright 1995-2024 Mark Adler\0")
    assert find_proof("zlib", texts)
    assert find_version("zlib", texts)[0] == ""


def test_a_version_alone_proves_nothing() -> None:
    """A public header contains it too."""
    texts = search(b"\0OpenSSL 3.0.13 30 Jan 2024\0")
    assert find_version("OpenSSL", texts)[0] == "3.0.13"
    assert find_proof("OpenSSL", texts) == ""
    assert find_proof("OpenSSL", search(b"\0" + TLS + b"\0")) == 'OPENSSLDIR: "/usr/lib/ssl"'


@given(st.integers(1, 400), st.integers(0, 9000))
def test_texts_are_found_wherever_a_block_ends(block: int, padding: int) -> None:
    content = b"\x01" * padding + ZLIB + b"\0" + TLS + b"\0" * (padding // 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(byte_source, "BLOCK", block)
        patch.setattr(strings, "BLOCK", block)
        assert search(content) == tuple(
            sorted((ZLIB.decode(), 'OPENSSLDIR: "/usr/lib/ssl"', "OpenSSL 3.0.13 30 Jan 2024"))
        )


def test_a_text_across_two_blocks_is_found_once() -> None:
    for offset in range(strings.BLOCK - 70, strings.BLOCK + 2, 7):
        assert search(b"\x01" * offset + ZLIB + b"\0" * 100) == (ZLIB.decode(),)


def test_only_the_wanted_parts_count() -> None:
    content = b"\0" + ZLIB + b"\0"
    assert search_strings(LimitedSource(Bytes(content)), [(0, 4)], None) == (None, ())


def test_all_texts_of_a_file_are_found_and_each_is_short() -> None:
    many = b"".join(b"\0libpng version 1.6.%d" % number for number in range(500))
    assert len(search(many + b"\0")) == 500
    (cut,) = search(b"x" * 999 + b"LLVM OMP version: " + b"y" * 999)
    assert cut == "x" * (64 - 4) + "LLVM OMP version: " + "y" * (128 - 14)


def test_compilers() -> None:
    texts = ("GCC: (GNU) 14.2.1 20250110 (Red Hat 14.2.1-11)", "rustc version 1.97.1 (abc)", "x")
    assert find_compilers((*texts, "Ubuntu clang version 18.1.3 (1)")) == (
        "GCC 14.2.1",
        "clang 18.1.3",
        "rustc 1.97.1",
    )
