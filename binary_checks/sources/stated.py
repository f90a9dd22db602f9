"""Facts that were stated of a package before: they stand in for reading its objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from binary_checks.model.packages import Package
from binary_checks.model.protocols import (
    Neighbours,
    ObjectReader,
    Preview,
    Progress,
    Reading,
    ReadObject,
    Remote,
    Source,
    Tree,
    Want,
)
from binary_checks.trees.kept_bytes import KeptContents

if TYPE_CHECKING:  # only runs that are given a document load what reads it
    from binary_checks.documents.facts import Statement


def trust(source: Source, statement: Statement) -> StatedSource | None:
    """Take the facts from there, None where they are about another package."""
    path = source.path
    if path.is_file() and path.stat().st_size != statement.package.size:
        return None  # without hashing all of it
    if source.identity() not in describe(statement):
        return None
    return StatedSource(source=source, stated=statement.package)


def describe(statement: Statement) -> tuple[str, str]:
    """By what the package is known that a statement is about."""
    return f"sha256 {statement.sha256}", f"record_sha256 {statement.record_sha256}"


@dataclass(frozen=True, kw_only=True)
class StatedSource:
    """A source of which no more is read than was not stated."""

    source: Source
    stated: Package

    @property
    def path(self) -> Path:
        """That of the source."""
        return self.source.path

    @property
    def label(self) -> str:
        """How messages name it."""
        return self.source.label

    @cached_property
    def _package(self) -> Package:
        return self.source.restate(self.stated)

    def identity(self) -> str:
        """By what the source is known."""
        return self.source.identity()

    def open(self) -> Tree:
        """Open what holds the members."""
        return self.source.open()

    def preview(self, reader: ObjectReader) -> Preview:
        """Say its kind and the formats of its objects. Raises PackageError."""
        del reader
        package = self._package
        found: tuple[ReadObject, ...] = (*package.objects, *package.malformed, *package.unread)
        return Preview(kind=type(package), formats=frozenset(item.format for item in found))

    def read(
        self, reader: ObjectReader, progress: Progress | None = None, wants: Sequence[Want] = ()
    ) -> Reading:
        """The package as it was stated; nothing is kept. Raises PackageError."""
        del progress, wants
        formats = self.preview(reader).formats
        return Reading(package=self._package, kept=KeptContents(), formats=formats)

    def restate(self, package: Package) -> Package:
        """The package with these facts."""
        return self.source.restate(package)

    def neighbours(self, reader: ObjectReader) -> Neighbours | None:
        """How to find what is installed beside it."""
        return self.source.neighbours(reader)

    def remote(self) -> Remote | None:
        """The file where it is published."""
        return self.source.remote()

    def parts(self) -> tuple[Source, ...]:
        """The packages that are judged together."""
        return self.source.parts()
