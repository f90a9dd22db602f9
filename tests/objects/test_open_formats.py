"""To add a format takes one module and one line in READERS."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pytest

from binary_checks import objects
from binary_checks.declaring import check
from binary_checks.documents.json_values import DocumentError, decoder
from binary_checks.examination.judging import applicable_formats
from binary_checks.model import (
    ElfFile,
    Finding,
    Format,
    Kind,
    MalformedObject,
    ObjectFile,
    UnreadObject,
    object_kinds,
)
from binary_checks.objects import LimitedSource, Readable
from tests.objects.byte_sources import Bytes

CONTENT = b"\1\xf7\0\0\1\0\0\0"


@dataclass(frozen=True, kw_only=True, slots=True)
class Xcoff(ObjectFile):
    """An object of AIX."""

    format: ClassVar[Format] = Format("XCOFF")
    version: int = 0


def read(path: str, source: LimitedSource) -> tuple[Xcoff, ...]:
    """Return the one object of a file. Raises MalformedError."""
    version = int.from_bytes(source.read(4, 4), "little")
    return (Xcoff(path=path, kind=Kind.OTHER, architecture="ppc64", version=version),)


@pytest.fixture(autouse=True)
def _with_its_reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make this module a reader."""
    assert __name__ in sys.modules
    line = Readable(Xcoff.format, (b"\1\xf7",), __name__)
    monkeypatch.setattr(objects, "READERS", (*objects.READERS, line))
    yield


@check
def old_module(library: Xcoff) -> Iterator[Finding]:
    """A module of the first version."""
    if library.version == 1:
        yield "is of version 1"


@check
def any_object(_library: ObjectFile) -> Iterator[Finding]:
    """An object."""
    yield "is an object"


@check
def elf_object(_library: ElfFile) -> Iterator[Finding]:
    """An ELF file."""
    yield "is an ELF file"


def test_its_files_are_recognised_and_read() -> None:
    assert objects.recognise(CONTENT) == "XCOFF"
    assert objects.announce("demo/a.bin", CONTENT) == "XCOFF"
    assert objects.read_objects("demo/a.bin", Bytes(CONTENT)) == (
        Xcoff(path="demo/a.bin", kind=Kind.OTHER, architecture="ppc64", version=1),
    )


def test_a_damaged_one_is_malformed() -> None:
    (found,) = objects.read_objects("demo/a.bin", Bytes(CONTENT[:6]))
    assert isinstance(found, MalformedObject)
    assert found.format == "XCOFF"


def test_checks_of_it_and_of_every_object_run_where_it_occurs() -> None:
    assert applicable_formats(old_module) == {Xcoff.format}
    assert Xcoff.format in (applicable_formats(any_object) or ())
    assert Xcoff.format not in (applicable_formats(elf_object) or ())
    assert [*old_module(Xcoff(path="demo/a.bin", version=1))] == ["is of version 1"]
    assert [*old_module(Xcoff(path="demo/a.bin", version=2))] == []


def test_documents_know_it_by_its_name() -> None:
    assert object_kinds()["XCOFF"] is Xcoff
    row = {"path": "demo/a.bin", "format": "XCOFF", "reason": "too long"}
    assert decoder(UnreadObject)(row).format == Xcoff.format
    with pytest.raises(DocumentError, match='"COBOL" is not one of'):
        decoder(UnreadObject)(row | {"format": "COBOL"})
