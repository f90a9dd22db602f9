"""The error message of NumPy's headers in an object tells which C API it was compiled for."""

from __future__ import annotations

import pytest

from binary_checks import objects
from binary_checks.model import ElfFile, NumpyBuild, ObjectFile
from binary_checks.objects import LimitedSource, byte_source
from binary_checks.objects.strings import add_build
from fixtures.samples import read_macho_sample
from tests.objects.byte_sources import Bytes

FIRST = b"\0module compiled against API version 0x%x but this version of numpy is 0x%x\0"
SECOND = (
    b"\0module was compiled against NumPy C-API version 0x%x (NumPy 1.25) but the running NumPy\0"
)
BOTH = b"\0module compiled against ABI version 0x%x but this version of numpy is 0x%x\0"


def search(content: bytes) -> NumpyBuild | None:
    (found,) = add_build((ElfFile(path="a.so"),), LimitedSource(Bytes(content)))
    assert isinstance(found, ElfFile)
    return found.numpy


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
    assert search(content) == build


@pytest.mark.parametrize("size", [1, 7, 60, 129, 4096])
def test_a_message_is_found_wherever_a_block_ends(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(byte_source, "BLOCK", size)
    assert search(b"\1" * 300 + SECOND + b"\1" * 300) == NumpyBuild(api=2, oldest="1.25")


@pytest.mark.parametrize(("message", "build"), [(FIRST, NumpyBuild(api=1)), (b"", None)])
def test_an_object_has_the_build(message: bytes, build: NumpyBuild | None) -> None:
    content = read_macho_sample("signed_arm64.dylib") + message
    (found,) = objects.read_objects("demo/a.so", Bytes(content))
    assert isinstance(found, ObjectFile)
    assert found.numpy == build
