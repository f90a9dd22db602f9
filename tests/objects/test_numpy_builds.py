"""The error message of NumPy's headers in an object tells which C API it was compiled for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from binary_checks import objects
from binary_checks.model import NumpyBuild, ObjectFile
from binary_checks.objects import NumpyScanner
from binary_checks.trees.kept_bytes import StreamedObject
from fixtures.samples import read_macho_sample
from tests.objects.byte_sources import Bytes

FIRST = b"\0module compiled against API version 0x%x but this version of numpy is 0x%x\0"
SECOND = (
    b"\0module was compiled against NumPy C-API version 0x%x (NumPy 1.25) but the running NumPy\0"
)
BOTH = b"\0module compiled against ABI version 0x%x but this version of numpy is 0x%x\0"


def scan(*pieces: bytes) -> NumpyBuild | None:
    scanner = NumpyScanner()
    for piece in pieces:
        assert list(scanner.see(piece)) == []
    return scanner.conclude()


@pytest.mark.parametrize(
    ("content", "build"),
    [
        (BOTH + FIRST, NumpyBuild(api=1)),
        (BOTH + SECOND, NumpyBuild(api=2, oldest="1.25")),
        (FIRST + SECOND, NumpyBuild(api=2, oldest="1.25")),
        (SECOND + SECOND.replace(b"1.25", b"2.1"), NumpyBuild(api=2, oldest="2.1")),
        (BOTH, None),
        (b"nothing was compiled against anything", None),
    ],
)
def test_the_message_names_the_api(content: bytes, build: NumpyBuild | None) -> None:
    assert scan(content) == build


@pytest.mark.parametrize("size", [1, 7, 60, 129, 4096])
def test_a_message_is_found_however_the_file_streams_by(size: int) -> None:
    content = b"\1" * 300 + SECOND + b"\1" * 300
    pieces = (content[start : start + size] for start in range(0, len(content), size))
    assert scan(*pieces) == NumpyBuild(api=2, oldest="1.25")


def test_an_object_has_the_build_read_at_once_or_streamed() -> None:
    content = read_macho_sample("signed_arm64.dylib") + FIRST
    (found,) = objects.read_objects("demo/a.so", Bytes(content))
    assert isinstance(found, ObjectFile)
    assert found.numpy == NumpyBuild(api=1)

    def again() -> Iterator[bytes]:
        raise AssertionError("it is not read again")

    with closing(StreamedObject(objects, content[:4096], len(content), again)) as file:
        file.append(content)
        (streamed,) = file.read("demo/a.so")
    assert isinstance(streamed, ObjectFile)
    assert streamed.numpy == NumpyBuild(api=1)


def test_an_object_without_the_message_has_none() -> None:
    (found,) = objects.read_objects("demo/a.so", Bytes(read_macho_sample("signed_arm64.dylib")))
    assert isinstance(found, ObjectFile)
    assert found.numpy is None
