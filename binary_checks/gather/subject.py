"""What is to be judged: a package file or an installed package, and where its facts come from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from binary_checks import objects, packages
from binary_checks.errors import GatherError
from binary_checks.model import Distribution, Format, InstalledPackage, Package
from binary_checks.model.protocols import ObjectReader
from binary_checks.packages import Preview, Progress

if TYPE_CHECKING:  # what only installed packages and stated facts need is not loaded for files
    from binary_checks.documents.facts_reader import Statement
    from binary_checks.packages.installed import Installation


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """One package that the user named."""

    path: Path  # the file; of an installed package "installed:NAME" in the current folder
    installation: Installation | None = None  # where it lies installed
    stated: Distribution | None = None  # facts that are not to be gathered again

    def preview(self) -> Preview:
        """Say its kind and the formats of its objects. Raises PackageError."""
        if self.stated is None:
            if self.installation is None:
                return packages.preview(self.path, objects)
            from binary_checks.packages import installed

            return installed.preview(self.installation, objects)
        return Preview(
            kind=type(self.stated) if self.installation is None else InstalledPackage,
            formats=_formats(self.stated),
        )

    def open(self, progress: Progress | None = None, reader: ObjectReader = objects) -> Package:
        """Read it, or as much of it as was not stated. Raises PackageError."""
        if self.installation is None:
            if self.stated is None:
                return packages.open_package(self.path, reader, progress)
            return replace(self.stated, path=self.path)
        from binary_checks.packages import installed

        if self.stated is None:
            return installed.open_package(self.installation, reader, progress)
        return replace(
            installed.survey(self.installation),
            objects=self.stated.objects,
            malformed=self.stated.malformed,
            unread=self.stated.unread,
            dll_directories=self.stated.dll_directories,
            loading_code=self.stated.loading_code,
            preloaded=self.stated.preloaded,
        )

    def identify(self) -> str:
        """By what it is known: ``sha256 …`` of the file or ``record_sha256 …``.

        Raises PackageError or GatherError where it cannot be read.
        """
        if self.installation is not None:
            from binary_checks.packages import installed

            return f"record_sha256 {installed.read_record_sha256(self.installation)}"
        return f"sha256 {_hash(self.path)}"

    def trust(self, statement: Statement) -> Subject | None:
        """Take the facts from there, None where they are about another package."""
        if self.installation is None and self.path.stat().st_size != statement.package.size:
            return None
        if self.identify() not in describe(statement):
            return None
        return replace(self, stated=statement.package)


def describe(statement: Statement) -> tuple[str, str]:
    """By what the package is known that a statement is about."""
    return f"sha256 {statement.sha256}", f"record_sha256 {statement.record_sha256}"


def _formats(package: Package) -> frozenset[Format]:
    unread = {item.format for item in package.malformed} | {item.format for item in package.unread}
    return frozenset(unread | {item.format for item in package.objects})


def _hash(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise GatherError(f"{path.name}: cannot be read: {error.strerror}") from None
    return digest.hexdigest()
