"""A package file, named by its path."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path

from binary_checks import packages, trees
from binary_checks.errors import GatherError, ProfileError
from binary_checks.model.packages import Package
from binary_checks.model.protocols import Tree
from binary_checks.sources.misnamed import explain
from binary_checks.sources.opened import OpenedSource
from binary_checks.sources.surroundings import Surroundings


def parse(argument: str, folder: Path) -> FileSource | None:
    """A file that is a package of a kind that is known, or would be if it were there."""
    path = Path(os.path.normpath(folder / argument))  # links not resolved
    return FileSource(path=path, written=argument) if packages.recognises(path) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class FileSource(OpenedSource):
    """One package file."""

    path: Path
    written: str = ""  # how the user named it

    @property
    def label(self) -> str:
        """The file's name."""
        return self.path.name

    def resolve(self, surroundings: Surroundings) -> FileSource:
        """The same, if it is there. Raises ProfileError."""
        del surroundings
        written = self.written or self.path.name
        try:
            if not self.path.is_file():
                raise ProfileError(explain(written, self.path))
        except OSError as error:  # too long a name
            raise ProfileError(f"{written}: {error.strerror}") from None
        return self

    def identity(self) -> str:
        """By what it is known: ``sha256 …``. Raises GatherError."""
        digest = hashlib.sha256()
        try:
            with self.path.open("rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
        except OSError as error:
            raise GatherError(f"{self.label}: cannot be read: {error.strerror}") from None
        return f"sha256 {digest.hexdigest()}"

    def open(self) -> Tree:
        """Open the archive."""
        return trees.open_tree(self.path)

    def restate(self, package: Package) -> Package:
        """All of it is stated: the file is the same to the last bit."""
        return replace(package, path=self.path)
