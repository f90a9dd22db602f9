"""Package files, named by path, and a base class for all sources that read a tree."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from glob import has_magic
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from binary_checks import packages, trees
from binary_checks.errors import BinaryChecksError, GatherError, ProfileError
from binary_checks.model import (
    ContentRequest,
    Neighbours,
    ObjectReader,
    Package,
    PackageKind,
    Preview,
    Progress,
    Reading,
    ReadObject,
    Remote,
    Source,
    Tree,
)
from binary_checks.packages import recognises
from binary_checks.sources.run_environment import Surroundings
from binary_checks.trees import open_tree
from binary_checks.trees.kept_bytes import BoundedContentStore
from binary_checks.watchdog import ask

if TYPE_CHECKING:  # only runs with a document import its reader
    from binary_checks.documents.facts import Statement


class OpenedSource(ABC):
    """A source that opens a tree, whose contents determine the kind of package."""

    @property
    def kinds(self) -> Sequence[PackageKind]:
        """The project's own kinds of packages, which this source may be."""
        return ()

    @property
    def stated(self) -> Package | None:
        """The package of a facts document, which is not read again, if there is one."""
        return None

    @abstractmethod
    def open(self) -> Tree:
        """Open the container of the members."""

    @abstractmethod
    def restate(self, package: Package) -> Package:
        """Return a package from a facts document, completed with facts read from the source."""

    def _restate(self, stated: Package) -> Reading:
        """Return the stated package, without any contents. Raises PackageError."""
        package = self.restate(stated)
        found: tuple[ReadObject, ...] = (*package.objects, *package.malformed, *package.unread)
        formats = frozenset(item.format for item in found)
        return Reading(package=package, kept=BoundedContentStore(), formats=formats)

    def preview(self, reader: ObjectReader) -> Preview:
        """Return the kind of package and the formats of its objects. Raises PackageError."""
        if self.stated is not None:
            return self._restate(self.stated).preview
        with closing(self.open()) as tree:
            return packages.kind_of(tree, self.kinds).preview(tree, reader)

    def read(
        self,
        reader: ObjectReader,
        progress: Progress | None = None,
        wants: Sequence[ContentRequest] = (),
    ) -> Reading:
        """Read every member once, and keep requested contents. Raises PackageError."""
        if self.stated is not None:
            return self._restate(self.stated)
        with closing(self.open()) as tree:
            return packages.read_tree(tree, reader, progress, wants, self.kinds)

    def neighbours(self, reader: ObjectReader) -> Neighbours | None:
        """Return a function that reads packages installed next to this one.

        Return None if this package is not installed.
        """
        del reader
        return None

    def remote(self) -> Remote | None:
        """Return the published file, or None for a local file."""
        return None

    def parts(self) -> tuple[Source, ...]:
        """Return (): the source is a single package."""
        return ()


def parse(argument: str, folder: Path, kinds: tuple[PackageKind, ...] = ()) -> FileSource | None:
    """Return the file if its name or content is that of a package; it need not exist.

    ``kinds`` are the project's own.
    """
    path = Path(os.path.normpath(folder / argument))  # links are not resolved
    found = packages.recognises(path, kinds=kinds)
    return FileSource(path=path, written=argument, kinds=kinds) if found else None


@dataclass(frozen=True, kw_only=True, slots=True)
class FileSource(OpenedSource):
    """A package file."""

    path: Path
    written: str = ""  # the path as the user wrote it
    kinds: tuple[PackageKind, ...] = ()
    stated: Package | None = None

    @property
    def label(self) -> str:
        """The file's name."""
        return self.path.name

    def resolve(self, surroundings: Surroundings) -> FileSource:
        """Return the source itself if the file exists. Raises ProfileError."""
        del surroundings
        written = self.written or self.path.name
        try:
            if not self.path.is_file():
                raise ProfileError(explain(written, self.path))
        except OSError as error:  # a name that is too long
            raise ProfileError(f"{written}: {error.strerror}") from None
        return self

    def identity(self) -> str:
        """Return ``sha256 …``, which identifies the file. Raises GatherError."""
        try:
            return f"sha256 {hash_file(self.path)['sha256']}"
        except OSError as error:
            raise GatherError(f"{self.label}: cannot be read: {error.strerror}") from None

    def open(self) -> Tree:
        """Open the archive."""
        return trees.open_tree(self.path)

    def restate(self, package: Package) -> Package:
        """Return the package of a result document with this file's path: the hashes are equal."""
        return replace(package, path=self.path)


def hash_file(path: Path, names: Iterable[str] = ()) -> dict[str, str]:
    """Return the SHA-256 of a file and its other hashes of these names. Raises OSError."""
    digests = {name: hashlib.new(name) for name in {"sha256", *names}}
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            ask(len(block))
            for digest in digests.values():
                digest.update(block)
    return {name: digest.hexdigest() for name, digest in digests.items()}


# Facts stated in a document, which are used instead of reading a package's objects.


def apply_statement(source: Source, statement: Statement) -> Source | None:
    """Return the source with the stated facts, or None if they describe another package."""
    path = source.path
    if path.is_file() and path.stat().st_size != statement.package.size:
        return None  # the size already differs, so the file is not hashed
    if source.identity() not in describe(statement):
        return None
    return replace(source, stated=statement.package)  # type: ignore[type-var]


def describe(statement: Statement) -> tuple[str, str]:
    """Return the two identities by which a statement's package may be recognised."""
    return f"sha256 {statement.sha256}", f"record_sha256 {statement.record_sha256}"


# Messages for paths that are not packages: what the path is, and what to do.

_EMPTY = "a folder without packages or object files"
_ARCHIVES = (".tar.gz", ".tgz", ".tar.xz", ".tar.zst", ".zip")
_PROJECT = re.compile(r"[A-Za-z0-9][\w-]*")
"""A name that may also be a project's name on an index: a typo must not become a download."""
_AS_CONDA = re.compile(r"([A-Za-z0-9][\w.-]*)=(\d[\w.]*)")
"""A version after a single equals sign, as conda accepts it."""
# members of an archive that are examined; PKG-INFO is among the first of an sdist
_MOST_NAMES = 5_000
_PACKAGES = ("*.whl", "*.conda", "*.tar.bz2", "*/*.whl", "*/*.conda")


def explain(written: str, path: Path) -> str:
    """Describe the file at a path, as the user wrote it. Raises OSError for an invalid path."""
    if path.is_dir():
        return f"{written}: {explain_folder(written, path) or _EMPTY}"
    if not path.exists():
        missing = "no file matches" if has_magic(written) else "no such file"
        return f"{written}: {missing}"
    if not path.is_file():
        return f"{written}: not a regular file"
    name = path.name.lower()
    if name.endswith(_ARCHIVES):
        return f"{written}: {_explain_archive(shlex.quote(written), path)}"
    known = next((say for ending, say in _KINDS if name.endswith(ending)), _describe_unknown)
    return f"{written}: {known(shlex.quote(written))}"


def suggest_requirement(written: str, path: Path) -> str:
    """Suggest the requirement for a name that may be on an index; return "" for other names."""
    if path.exists():
        return ""
    if as_conda := _AS_CONDA.fullmatch(written):
        return f"; a requirement is {as_conda[1]}=={as_conda[2]}"
    if not _PROJECT.fullmatch(written):
        return ""
    return f"; a requirement is {written}==VERSION or index:{written}"


def require_package(written: str, kinds: Sequence[PackageKind] = ()) -> None:
    """Raise ProfileError if the current folder has no package file at this path."""
    path = Path(written)
    try:
        if not (path.is_file() and recognises(path, kinds=kinds)):
            raise ProfileError(explain(written, path))
    except OSError as error:  # a name that is too long
        raise ProfileError(f"{written}: {error.strerror}") from None
    except ValueError:  # a NUL in the name
        raise ProfileError(f"{written}: not a path") from None


def explain_folder(written: str, path: Path) -> str:
    """Suggest what to name instead of a folder that contains packages or a project.

    Return "" for other folders.
    """
    pattern = next((each for each in _PACKAGES if any(path.glob(each))), "")
    if pattern:
        return f"a folder; name its packages: {written.rstrip('/')}/{pattern}"
    if (path / "pyproject.toml").is_file() or (path / "setup.py").is_file():
        return "a folder with a project; build a wheel from it, and name the wheel"
    return ""


def _describe_unknown(_: str) -> str:
    return "neither a package file nor an object file"


def _explain_archive(name: str, path: Path) -> str:
    """Describe an archive: a source distribution must be built, other archives are not packages."""
    try:
        with closing(open_tree(path)) as tree:
            names = [entry.name for entry in islice(tree.each_entry(), _MOST_NAMES)]
    except BinaryChecksError as error:
        return f"an archive that cannot be read: {str(error).removeprefix(f'{path.name}: ')}"
    if any(re.fullmatch(r"(?:\./)?[^/]+/PKG-INFO", each) for each in names):
        return (
            "a source distribution, in which nothing is built; judge a wheel that is built from "
            f"it: pip wheel --no-deps {name} (this runs its code)"
        )
    return "an archive, but not a known package: neither a wheel, a conda package nor C++ libraries"


def _describe_convertible(name: str) -> str:
    return f"not a package file; if it holds a distribution, convert it: wheel convert {name}"


def _describe_document(name: str) -> str:
    example = f"binary-checks report {name} --format markdown"
    return f"not a package file; to make another report from a result, run {example}"


def _describe_linkable(_: str) -> str:
    return (
        "an input for linkers, judged only as part of C++ libraries: name the folder or the "
        "archive with this file in 'lib' and headers in 'include'"
    )


_KINDS: tuple[tuple[str, Callable[[str], str]], ...] = (
    *((ending, _describe_convertible) for ending in (".egg", ".exe")),
    (".json", _describe_document),
    *((ending, _describe_linkable) for ending in (".a", ".lib", ".o", ".obj")),
)
"""Suffixes of files that are often taken for packages, or are parts of packages."""
