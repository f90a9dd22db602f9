"""Packages installed for an interpreter, named ``installed:NAME``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Protocol

from packaging.utils import canonicalize_name

from binary_checks.errors import PackageError, ProfileError
from binary_checks.model import Neighbours, ObjectReader, Package, Tree
from binary_checks.packages import conda_record, installed
from binary_checks.packages.distributions import DIST_INFO
from binary_checks.packages.installed import LABEL
from binary_checks.sources.file import OpenedSource
from binary_checks.sources.run_environment import Surroundings
from binary_checks.trees.folder import FolderTree


def parse(argument: str, folder: Path) -> NamedInstallation | None:
    """Read the name of a package after ``installed:``."""
    if not argument.startswith(LABEL):
        return None
    name = canonicalize_name(argument.removeprefix(LABEL))
    return NamedInstallation(name=name, folder=folder)


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedInstallation:
    """An installed package, as the user named it."""

    name: str  # normalised name
    folder: Path  # the current folder

    @property
    def path(self) -> Path:
        """The label as a path in the current folder."""
        return self.folder / f"{LABEL}{self.name}"

    def resolve(self, surroundings: Surroundings) -> Installation | LinkedSource:
        """Find the package by reading files, or else in the folders that an import searches.

        In static mode the interpreter is not started. A package that the interpreter does not know
        may be linked into the interpreter's conda prefix.
        """
        if surroundings.image is not None:
            return self._find_in_image(surroundings)
        folders = surroundings.folders
        found = find_installation(self.name, folders.search, folders.prefix)
        if found is None and (by_code := surroundings.folders_by_code) is not None:
            found = find_installation(self.name, by_code.search, by_code.prefix)
        if found is None and (linked := find_linked(self.name, folders.prefix)) is not None:
            return replace(linked, folder=self.folder)
        if found is None:
            hint = _explain_unread(folders.unread) if surroundings.static else ""
            python = surroundings.python
            raise ProfileError(f"--binary-installed {self.name}: not installed for {python}{hint}")
        return replace(found, folder=self.folder)

    def _find_in_image(self, surroundings: Surroundings) -> Installation:
        folders = surroundings.copy_from_image(self.name)
        found = find_installation(self.name, folders.search, folders.prefix)
        if found is None:
            raise ProfileError(f"--binary-installed {self.name}: the image has no metadata of it")
        return replace(found, folder=self.folder)


def _explain_unread(unread: tuple[str, ...]) -> str:
    """Explain that code in .pth files, such as those of editable installs, may add folders."""
    if not unread:
        return ""
    few = ", ".join(unread[:3]) + ", …" * (len(unread) > 3)
    return f", unless code in {few} adds its folder; static mode does not run this code"


class _FileLists(Protocol):
    def hash_rows(self, tree: Tree) -> str: ...
    def survey(self, tree: Tree) -> Package: ...
    def read_unhashed(self, tree: Tree, reader: ObjectReader) -> Package: ...


class EnvironmentSource(OpenedSource):
    """A package in an environment, which has a list of the package's files."""

    lists: ClassVar[_FileLists]  # the functions that read such lists
    folder: Path  # the current folder

    @property
    @abstractmethod
    def name(self) -> str:
        """The package's name, normalised."""

    @property
    def label(self) -> str:
        """The label, which messages show, as there is no package file."""
        return f"{LABEL}{self.name}"

    @property
    def path(self) -> Path:
        """The label as a path in the current folder."""
        return self.folder / self.label

    def identity(self) -> str:
        """Return ``record_sha256 …``, which identifies the package. Raises PackageError."""
        with closing(self.open()) as tree:
            return f"record_sha256 {self.lists.hash_rows(tree)}"

    def restate(self, package: Package) -> Package:
        """Check that the package's files exist, and add the stated objects."""
        with closing(self.open()) as tree:
            surveyed = self.lists.survey(tree)
        return replace(
            surveyed,
            objects=package.objects,
            malformed=package.malformed,
            unread=package.unread,
            dll_directories=package.dll_directories,
            loading_code=package.loading_code,
        )

    def neighbours(self, reader: ObjectReader) -> Neighbours:
        """Return a function that reads packages next to this one, where search paths lead.

        It returns None for a package that is missing, or lists no files of its own.
        """

        def read(name: str) -> Package | None:
            with suppress(PackageError):
                found = self.find_neighbour(name)
                if found is not None:
                    with closing(found.open()) as tree:
                        return self.lists.read_unhashed(tree, reader)
            return None

        return read

    @abstractmethod
    def find_neighbour(self, name: str) -> EnvironmentSource | None:
        """Find another package of the environment."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Installation(EnvironmentSource):
    """An installed distribution."""

    lists: ClassVar[_FileLists] = installed
    dist_info: Path
    prefix: Path  # the environment's prefix; files outside of it are not inspected
    folder: Path = Path()
    stated: Package | None = None

    @property
    def name(self) -> str:
        """The project's name, normalised."""
        return str(canonicalize_name(self.dist_info.name.partition("-")[0]))

    def open(self) -> Tree:
        """Return the tree of the files that RECORD names, in site-packages and elsewhere."""
        return FolderTree(
            self.dist_info,
            root=self.dist_info.parent,
            within=self.prefix,
            label=self.label,
            listed_by="RECORD",
        )

    def find_neighbour(self, name: str) -> Installation | None:
        """Find a distribution in the same folder. Raises PackageError."""
        return find_installation(name, (self.dist_info.parent,), self.prefix)


def find_installation(name: str, folders: Iterable[Path], prefix: Path) -> Installation | None:
    """Find a distribution as the import system does, in the first folder that contains it.

    Return None if there is none. Raises PackageError if the distribution has no ``*.dist-info``, or
    two of them.
    """
    wanted = canonicalize_name(name)
    for folder in folders:
        # Names are case-insensitive, and may be written in several ways.
        near = [path for path in _list(folder) if canonicalize_name(_stem(path)) == wanted]
        found = sorted(path for path in near if path.name.endswith(DIST_INFO) and path.is_dir())
        if len(found) > 1:
            names = ", ".join(path.name for path in found)
            raise PackageError(f"{wanted}: installed more than once in one folder: {names}")
        if found:
            return Installation(dist_info=found[0], prefix=prefix)
        if link := next((path for path in near if path.suffix == ".egg-link"), None):
            where = link.read_text(encoding="utf-8", errors="replace").partition("\n")[0].strip()
            raise PackageError(f"{wanted}: {installed.describe_editable(where)}")
        if near:
            raise PackageError(f"{wanted}: installed without a RECORD ({near[0].name})")
    return None


def _list(folder: Path) -> Iterator[Path]:
    suffixes = (DIST_INFO, ".egg-info", ".egg-link", ".egg")
    if folder.is_dir():
        yield from (path for path in folder.iterdir() if path.name.endswith(suffixes))


def _stem(path: Path) -> str:
    return path.name.removesuffix(path.suffix).partition("-")[0]


# Packages of a conda prefix that only ``conda-meta`` lists, such as libraries.

_META = conda_record.META


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkedSource(EnvironmentSource):
    """A package installed in a conda prefix."""

    lists: ClassVar[_FileLists] = conda_record
    record: Path  # the file in conda-meta
    folder: Path = Path()
    stated: Package | None = None

    @property
    def name(self) -> str:
        """The package's name as the user wrote it."""
        return str(canonicalize_name(_name_of(self.record)))

    @property
    def prefix(self) -> Path:
        """The prefix into which the package is linked."""
        return self.record.parents[1]

    def open(self) -> Tree:
        """Return the tree of the files in the prefix that the package's record lists."""
        prefix = self.prefix
        return FolderTree(
            self.record, root=prefix, within=prefix, label=self.label, listed_by="conda-meta"
        )

    def find_neighbour(self, name: str) -> LinkedSource | None:
        """Find a package in the same prefix."""
        return find_linked(name, self.prefix)


def find_linked(name: str, prefix: Path) -> LinkedSource | None:
    """Find the record of a package, or return None.

    Names are compared as for distributions.
    """
    wanted = canonicalize_name(name)
    for record in sorted(prefix.glob(f"{_META}/*.json")):
        if canonicalize_name(_name_of(record)) == wanted:
            return LinkedSource(record=record)
    return None


def _name_of(record: Path) -> str:
    """Return the name in ``libx-1.2-h0_0.json``; version and build contain no hyphen."""
    return record.stem.rsplit("-", 2)[0]
