"""Facts stated in a document, which are used instead of reading a package's objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from binary_checks.model import (
    ContentRequest,
    Neighbours,
    ObjectReader,
    Package,
    Preview,
    Progress,
    Reading,
    ReadObject,
    Remote,
    Source,
    Tree,
)
from binary_checks.trees.kept_bytes import BoundedContentStore

if TYPE_CHECKING:  # only runs with a document import its reader
    from binary_checks.documents.facts import Statement


def apply_statement(source: Source, statement: Statement) -> StatedSource | None:
    """Return the source with the stated facts, or None if they describe another package."""
    path = source.path
    if path.is_file() and path.stat().st_size != statement.package.size:
        return None  # the size already differs, so the file is not hashed
    if source.identity() not in describe(statement):
        return None
    return StatedSource(source=source, stated=statement.package)


def describe(statement: Statement) -> tuple[str, str]:
    """Return the two identities by which a statement's package may be recognised."""
    return f"sha256 {statement.sha256}", f"record_sha256 {statement.record_sha256}"


@dataclass(frozen=True, kw_only=True)
class StatedSource:
    """A source that reads only those parts that a document does not state."""

    source: Source
    stated: Package

    @property
    def path(self) -> Path:
        """The path of the source."""
        return self.source.path

    @property
    def label(self) -> str:
        """The name in messages."""
        return self.source.label

    @cached_property
    def _package(self) -> Package:
        return self.source.restate(self.stated)

    def identity(self) -> str:
        """Return the identity of the source."""
        return self.source.identity()

    def open(self) -> Tree:
        """Open the container of the members."""
        return self.source.open()

    def preview(self, reader: ObjectReader) -> Preview:
        """Return the kind of package and the formats of its objects. Raises PackageError."""
        del reader
        package = self._package
        found: tuple[ReadObject, ...] = (*package.objects, *package.malformed, *package.unread)
        return Preview(kind=type(package), formats=frozenset(item.format for item in found))

    def read(
        self,
        reader: ObjectReader,
        progress: Progress | None = None,
        wants: Sequence[ContentRequest] = (),
    ) -> Reading:
        """Return the stated package, without any contents. Raises PackageError."""
        del progress, wants
        formats = self.preview(reader).formats
        return Reading(package=self._package, kept=BoundedContentStore(), formats=formats)

    def restate(self, package: Package) -> Package:
        """Return the package with the stated facts."""
        return self.source.restate(package)

    def neighbours(self, reader: ObjectReader) -> Neighbours | None:
        """Return a function that finds packages installed next to this one."""
        return self.source.neighbours(reader)

    def remote(self) -> Remote | None:
        """Return the published file."""
        return self.source.remote()

    def parts(self) -> tuple[Source, ...]:
        """Return the packages that are judged together."""
        return self.source.parts()
