"""What sources share whose package is read from a tree."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from binary_checks import packages
from binary_checks.model.packages import Package
from binary_checks.model.protocols import (
    Neighbours,
    ObjectReader,
    Preview,
    Progress,
    Reading,
    Remote,
    Source,
    Tree,
    Want,
)


def take_objects(surveyed: Package, stated: Package) -> Package:
    """What was found installed, with its objects, and what loads them, as they were stated."""
    return replace(
        surveyed,
        objects=stated.objects,
        malformed=stated.malformed,
        unread=stated.unread,
        dll_directories=stated.dll_directories,
        loading_code=stated.loading_code,
        preloaded=stated.preloaded,
    )


class OpenedSource(ABC):
    """A source that opens a tree; what kind of package it holds, the tree tells."""

    @abstractmethod
    def open(self) -> Tree:
        """Open what holds the members."""

    def preview(self, reader: ObjectReader) -> Preview:
        """Say its kind and the formats of its objects. Raises PackageError."""
        with closing(self.open()) as tree:
            return packages.kind_of(tree).preview(tree, reader)

    def read(
        self, reader: ObjectReader, progress: Progress | None = None, wants: Sequence[Want] = ()
    ) -> Reading:
        """Read every member once, and keep the contents that are wanted. Raises PackageError."""
        with closing(self.open()) as tree:
            return packages.read_tree(tree, reader, progress, wants)

    def neighbours(self, reader: ObjectReader) -> Neighbours | None:
        """How to find what is installed beside it; None where nothing is."""
        del reader
        return None

    def remote(self) -> Remote | None:
        """The file where it is published; None of one that is here."""
        return None

    def parts(self) -> tuple[Source, ...]:
        """None: it is a single package."""
        return ()
