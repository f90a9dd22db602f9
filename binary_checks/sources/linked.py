"""A package of a conda prefix, known by ``conda-meta`` alone: ``installed:NAME`` of a library."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from packaging.utils import canonicalize_name

from binary_checks.errors import PackageError
from binary_checks.model.packages import Package
from binary_checks.model.protocols import Neighbours, ObjectReader, Tree
from binary_checks.packages import conda_record
from binary_checks.packages.installed import LABEL
from binary_checks.sources.opened import OpenedSource, take_objects
from binary_checks.trees.folder import FolderTree

_META = conda_record.META


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkedSource(OpenedSource):
    """Where a conda package lies installed."""

    record: Path  # the file in conda-meta
    folder: Path = Path()  # the current one

    @property
    def name(self) -> str:
        """The package's name, as the user spells it."""
        return str(canonicalize_name(_name_of(self.record)))

    @property
    def label(self) -> str:
        """How messages name it: there is no package file."""
        return f"{LABEL}{self.name}"

    @property
    def path(self) -> Path:
        """Its label in the current folder."""
        return self.folder / self.label

    @property
    def prefix(self) -> Path:
        """The folder that it is linked into."""
        return self.record.parents[1]

    def identity(self) -> str:
        """By what it is known: ``record_sha256 …``. Raises PackageError."""
        with closing(self.open()) as tree:
            return f"record_sha256 {conda_record.hash_rows(tree)}"

    def open(self) -> Tree:
        """The files in the prefix that its record names."""
        prefix = self.prefix
        return FolderTree(
            self.record, root=prefix, within=prefix, label=self.label, listed_by="conda-meta"
        )

    def restate(self, package: Package) -> Package:
        """Look whether its files are there, and take their objects as they are stated."""
        with closing(self.open()) as tree:
            return take_objects(conda_record.survey(tree), package)

    def neighbours(self, reader: ObjectReader) -> Neighbours:
        """What lies in the same prefix."""
        return partial(self._read_neighbour, reader)

    def _read_neighbour(self, reader: ObjectReader, name: str) -> Package | None:
        found = find_linked(name, self.prefix)
        if found is None:
            return None
        try:
            with closing(found.open()) as tree:
                return conda_record.read_linked(tree, reader, hashed=False)
        except PackageError:
            return None


def find_linked(name: str, prefix: Path) -> LinkedSource | None:
    """Find what conda's tools noted of a package; names count as those of distributions do."""
    wanted = canonicalize_name(name)
    for record in sorted(prefix.glob(f"{_META}/*.json")):
        if canonicalize_name(_name_of(record)) == wanted:
            return LinkedSource(record=record)
    return None


def _name_of(record: Path) -> str:
    """``libx-1.2-h0_0.json``: neither the version nor the build has a hyphen in it."""
    return record.stem.rsplit("-", 2)[0]
