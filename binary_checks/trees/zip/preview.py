"""A first look at an archive: the formats in it, by the first bytes of its members alone."""

from __future__ import annotations

from dataclasses import dataclass

from binary_checks.model.objects import Format
from binary_checks.model.packages import Package
from binary_checks.model.protocols import ObjectReader
from binary_checks.trees.file_bytes import FileBytes
from binary_checks.trees.zip.directory import Archive
from binary_checks.trees.zip.inflate import read_head

SOURCE_CODE = (".py", ".pyi", ".h", ".hpp", ".cuh")
"""How most names end. In such members nobody looks for objects beforehand: who reads them all tells
of an object among them, as a fault of the member."""
_HEAD = 64  # bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Preview:
    """What collection needs to know of a package."""

    kind: type[Package]
    formats: frozenset[Format] = frozenset()


def find_formats(file: FileBytes, archive: Archive, reader: ObjectReader) -> frozenset[Format]:
    """Say which formats of object files occur among the members."""
    looked_at = (e for e in archive.entries if e.size and not e.name.endswith(SOURCE_CODE))
    heads = (read_head(file, entry, _HEAD) for entry in looked_at)
    found = (reader.recognise(head) for head in heads if head)
    return frozenset(each for each in found if each is not None)
