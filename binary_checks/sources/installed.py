"""A package that is installed for an interpreter, named ``installed:NAME``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from packaging.utils import canonicalize_name

from binary_checks.errors import PackageError, ProfileError
from binary_checks.model.packages import Package
from binary_checks.model.protocols import Neighbours, ObjectReader, Tree
from binary_checks.packages import conda_record, installed
from binary_checks.packages.distributions import DIST_INFO
from binary_checks.packages.installed import LABEL
from binary_checks.sources.file import OpenedSource, take_objects
from binary_checks.sources.surroundings import Surroundings
from binary_checks.trees.folder import FolderTree


def parse(argument: str, folder: Path) -> NamedInstallation | None:
    """The name of a package behind ``installed:``."""
    if not argument.startswith(LABEL):
        return None
    name = canonicalize_name(argument.removeprefix(LABEL))
    return NamedInstallation(name=name, folder=folder)


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedInstallation:
    """A package that is said to be installed."""

    name: str  # normalised
    folder: Path  # the current one

    @property
    def path(self) -> Path:
        """Its label in the current folder."""
        return self.folder / f"{LABEL}{self.name}"

    def resolve(self, surroundings: Surroundings) -> Installation | LinkedSource:
        """Find it by reading alone; where that is not enough, unless static, as an import would.

        What no interpreter knows of may have been linked into its conda prefix.
        """
        folders = surroundings.folders
        found = find_installation(self.name, folders.search, folders.prefix)
        if found is None and (by_code := surroundings.folders_by_code) is not None:
            found = find_installation(self.name, by_code.search, by_code.prefix)
        if found is None and (linked := find_linked(self.name, folders.prefix)) is not None:
            return replace(linked, folder=self.folder)
        if found is None:
            lost = _say_what_is_lost(folders.unread) if surroundings.static else ""
            python = surroundings.python
            raise ProfileError(f"--binary-installed {self.name}: not installed for {python}{lost}")
        return replace(found, folder=self.folder)


def _say_what_is_lost(unread: tuple[str, ...]) -> str:
    """That code in .pth files may say more, as editable installs and coverage put it there."""
    if not unread:
        return ""
    few = ", ".join(unread[:3]) + ", …" * (len(unread) > 3)
    return f", unless code of {few} adds its folder, which static mode does not run"


@dataclass(frozen=True, kw_only=True, slots=True)
class Installation(OpenedSource):
    """Where a distribution lies installed."""

    dist_info: Path
    prefix: Path  # of the environment: what lies outside it is not looked at
    folder: Path = Path()  # the current one

    @property
    def name(self) -> str:
        """The project's name, normalised."""
        return str(canonicalize_name(self.dist_info.name.partition("-")[0]))

    @property
    def label(self) -> str:
        """How messages name it: there is no package file."""
        return f"{LABEL}{self.name}"

    @property
    def path(self) -> Path:
        """Its label in the current folder."""
        return self.folder / self.label

    def identity(self) -> str:
        """By what it is known: ``record_sha256 …``. Raises PackageError."""
        with closing(self.open()) as tree:
            return f"record_sha256 {installed.hash_rows(tree)}"

    def open(self) -> Tree:
        """The files in its folder and around it, which RECORD names."""
        return FolderTree(
            self.dist_info,
            root=self.dist_info.parent,
            within=self.prefix,
            label=self.label,
            listed_by="RECORD",
        )

    def restate(self, package: Package) -> Package:
        """Look whether its files are there, and take their objects as they are stated."""
        with closing(self.open()) as tree:
            return take_objects(installed.survey(tree), package)

    def neighbours(self, reader: ObjectReader) -> Neighbours:
        """What lies in its own folder: only there do search paths find it."""
        return partial(self._read_neighbour, reader)

    def _read_neighbour(self, reader: ObjectReader, name: str) -> Package | None:
        """One that is not there, or does not say which files are its own, is found missing."""
        try:
            found = find_installation(name, (self.dist_info.parent,), self.prefix)
            if found is None:
                return None
            with closing(found.open()) as tree:
                return installed.read_beside(tree, reader)
        except PackageError:
            return None


def find_installation(name: str, folders: Iterable[Path], prefix: Path) -> Installation | None:
    """Find a distribution as the import system would, in the first folder that has it.

    Raises PackageError where what is there has no ``*.dist-info``, or two of them.
    """
    wanted = canonicalize_name(name)
    for folder in folders:
        # RECORD has no case: a name may be spelled in many ways.
        near = [path for path in _list(folder) if canonicalize_name(_stem(path)) == wanted]
        found = sorted(path for path in near if path.name.endswith(DIST_INFO) and path.is_dir())
        if len(found) > 1:
            names = ", ".join(path.name for path in found)
            raise PackageError(f"{wanted}: installed more than once in one folder: {names}")
        if found:
            return Installation(dist_info=found[0], prefix=prefix)
        if link := next((path for path in near if path.suffix == ".egg-link"), None):
            where = link.read_text(encoding="utf-8", errors="replace").partition("\n")[0].strip()
            raise PackageError(f"{wanted}: {installed.say_editable(where)}")
        if near:
            raise PackageError(f"{wanted}: installed without a RECORD ({near[0].name})")
    return None


def _list(folder: Path) -> Iterator[Path]:
    suffixes = (DIST_INFO, ".egg-info", ".egg-link", ".egg")
    if folder.is_dir():
        yield from (path for path in folder.iterdir() if path.name.endswith(suffixes))


def _stem(path: Path) -> str:
    return path.name.removesuffix(path.suffix).partition("-")[0]


# A package of a conda prefix, known by ``conda-meta`` alone: ``installed:NAME`` of a library.

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
