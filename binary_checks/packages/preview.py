"""A first look at an archive: the formats in it, by the first bytes of its members alone."""

from __future__ import annotations

from binary_checks.model.objects import Format
from binary_checks.model.packages import Package
from binary_checks.model.source import ObjectReader
from binary_checks.packages.archive import Archive
from binary_checks.packages.file_bytes import FileBytes
from binary_checks.packages.inflate import read_head
from binary_checks.records import dataclass

_HEAD = 64  # bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Preview:
    """What collection needs to know of a package."""

    kind: type[Package]
    formats: frozenset[Format] = frozenset()


def find_formats(file: FileBytes, archive: Archive, reader: ObjectReader) -> frozenset[Format]:
    """Say which formats of object files occur among the members."""
    heads = (read_head(file, entry, _HEAD) for entry in archive.entries if entry.size)
    found = (reader.recognise(head) for head in heads if head)
    return frozenset(each for each in found if each is not None)
