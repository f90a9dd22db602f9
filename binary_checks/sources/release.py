"""The packages of one run as a release, to which results about several packages belong."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from binary_checks.errors import GatherError, PackageError, ProfileError
from binary_checks.files import read_named, walk_up
from binary_checks.knowledge.ci_variables import RELEASE_MATRIX
from binary_checks.model import (
    ObjectReader,
    Package,
    Preview,
    Source,
    Tree,
)
from binary_checks.packages.wheel import parse_file_name
from binary_checks.sources.file import OpenedSource

RELEASE = "release"
"""Name of a release in arguments and reports."""
_MOST_GLOBS, _LARGEST = 10_000, 4 << 20  # lines of a list, and its bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpectedSet:
    """The files that a release must contain."""

    written: str  # the list's path as the user wrote it
    globs: tuple[str, ...]  # patterns for file names


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseSource(OpenedSource):
    """Several packages that are judged together; a file with the release's name does not exist."""

    packages: tuple[Source, ...]
    folder: Path  # the current folder
    label: str = RELEASE

    @property
    def path(self) -> Path:
        """The label as a path in the current folder."""
        return self.folder / self.label

    def parts(self) -> tuple[Source, ...]:
        """Return the packages."""
        return self.packages

    def identity(self) -> str:
        """Raise GatherError: each package has a hash, but the release has none."""
        raise GatherError(f"{self.label}: not a file")

    def open(self) -> Tree:
        """Raise PackageError: a release is not a file."""
        raise PackageError(f"{self.label}: not a package")

    def preview(self, reader: ObjectReader) -> Preview:
        """Return an empty preview."""
        del reader
        return Preview(kind=Package)

    def restate(self, package: Package) -> Package:
        """Return the package unchanged: documents state no facts about releases."""
        return package


def make_release(
    packages: Sequence[Source], expected: ExpectedSet | None, folder: Path, label: str = RELEASE
) -> ReleaseSource | None:
    """Return a release if there is an expected set, or if there are several wheels of one version.

    Otherwise return None: unrelated packages have nothing in common, and two builds of one file in
    two folders are not a release.
    """
    labels = {each.label for each in packages}
    titles = Counter(filter(None, map(_read_title, labels)))
    if expected is None and all(count < 2 for count in titles.values()):
        return None
    return ReleaseSource(packages=tuple(packages), folder=folder, label=label)


def _read_title(label: str) -> tuple[str, str] | None:
    try:
        name, version, _, _ = parse_file_name(label)
    except PackageError:
        return None
    return name, version


def read_expected_set(path: Path, written: str) -> ExpectedSet:
    """Read a list of patterns, one per line; ``#`` starts a comment. Raises ProfileError."""
    try:
        text = read_named(path, _LARGEST, f"{written}: cannot be read").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ProfileError(f"{written}: not a text file (UTF-8): {error}") from None
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    globs = tuple(dict.fromkeys(filter(None, lines)))
    if not globs:
        raise ProfileError(f"{written}: it lists no file")
    if len(globs) > _MOST_GLOBS:
        raise ProfileError(f"{written}: it lists more than {_MOST_GLOBS} files")
    for glob in globs:
        if "/" in glob or "\\" in glob:
            raise ProfileError(f"{written}: {glob}: globs match file names, without folders")
    return ExpectedSet(written=written, globs=globs)


def read_release_matrix(folder: Path) -> object:
    """Read ``release_matrix.json`` of the folder or of one above it, up to the repository's root.

    Return an empty mapping if there is none. Raises ProfileError if it cannot be read.
    """
    paths = (each / RELEASE_MATRIX for each in walk_up(folder))
    path = next(filter(Path.is_file, paths), None)
    if path is None:
        return {}
    try:
        return json.loads(read_named(path, _LARGEST, RELEASE_MATRIX))
    except (ValueError, RecursionError) as error:
        raise ProfileError(f"{RELEASE_MATRIX}: not JSON: {error}") from None
