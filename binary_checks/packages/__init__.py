"""Kinds of packages, one module each with ``recognises``, ``preview`` and ``read``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path

from packaging.tags import Tag

from binary_checks.errors import PackageError
from binary_checks.model import (
    ContentRequest,
    Format,
    ObjectReader,
    Package,
    PackageKind,
    Preview,
    Progress,
    Reading,
    Tree,
)
from binary_checks.packages import (
    conda,
    conda_record,
    cpp_archive,
    folder,
    installed,
    wheel,
)
from binary_checks.packages.own_kind import OwnKind
from binary_checks.trees import open_tree
from binary_checks.trees.kept_bytes import BoundedContentStore
from binary_checks.trees.members import SOURCE_CODE

__all__ = [
    "KINDS",
    "OwnKind",
    "Preview",
    "Progress",
    "kind_of",
    "open_package",
    "read_file_name",
    "read_outline",
    "preview",
    "read_tree",
    "recognises",
]

KINDS: tuple[PackageKind, ...] = (
    wheel,
    cpp_archive,
    conda,
    installed,
    conda_record,
    folder,
)


def read_outline(tree: Tree, reader: ObjectReader) -> Package:
    """Read as much of a package as a tree from `open_part` shows.

    Raises PackageError if the tree is not a package, Unavailable if too much would have to be read.
    """
    if conda.recognises(tree.label, lambda: tree):
        return conda.outline(tree, reader)
    return kind_of(tree).read(tree, reader)


def read_file_name(file_name: str) -> tuple[str, str, tuple[Tag, ...]]:
    """Return name, version and tags in the name of a wheel or conda package; "" for other files."""
    if file_name.endswith(conda.SUFFIXES):
        name, version, _ = [*conda.strip_suffix(file_name).rsplit("-", 2), "", ""][:3]
        return name, version, ()
    try:
        name, version, _, tags = wheel.parse_file_name(file_name)
    except PackageError:
        return "", "", ()
    return name, version, tags


def recognises(path: Path, *, folders: bool = False, kinds: Sequence[PackageKind] = ()) -> bool:
    """Return whether a file is a package of a known kind, by its name if the name suffices.

    With ``folders`` the path is a folder, which is recognised by its contents: the label of a
    folder ends with "/". ``kinds`` are those of the project, which precede ours.
    """
    with ExitStack() as stack:

        @cache
        def look() -> Tree:
            return stack.enter_context(closing(open_tree(path)))

        return _find_kind(f"{path.name}/" if folders else path.name, look, kinds) is not None


def kind_of(tree: Tree, kinds: Sequence[PackageKind] = ()) -> PackageKind:
    """Return the kind of package in a tree, where the project's own kinds precede ours.

    Raises PackageError for an unknown kind.
    """
    if (kind := _find_kind(tree.label, lambda: tree, kinds)) is None:
        raise PackageError(f"{tree.label}: not a known kind of package")
    return kind


def read_tree(
    tree: Tree,
    reader: ObjectReader,
    progress: Progress | None = None,
    wants: Sequence[ContentRequest] = (),
    kinds: Sequence[PackageKind] = (),
) -> Reading:
    """Read all members of a package once, and keep the contents that facts request.

    ``kinds`` are those of the project, which precede ours. Raises PackageError if the package
    cannot be read as a whole.
    """
    kept, watched = BoundedContentStore(wants), _WatchedReader(reader)
    try:
        package = kind_of(tree, kinds).read(tree, watched, progress, kept)
        return Reading(package=package, kept=kept, formats=frozenset(watched.formats))
    except BaseException:
        kept.close()
        raise


class _WatchedReader:
    """An ObjectReader that records the formats which the first bytes of members show."""

    def __init__(self, reader: ObjectReader) -> None:
        self.formats: set[Format] = set()
        self._reader = reader
        self.recognise = reader.recognise
        self.read_objects = reader.read_objects

    def announce(self, path: str, head: bytes) -> Format | None:
        """Return the format of a member, and record it, unless the member is source code."""
        found = self._reader.recognise(head)
        if found is not None and not path.endswith(SOURCE_CODE):
            self.formats.add(found)
        return found or self._reader.announce(path, head)


def preview(path: Path, reader: ObjectReader) -> Preview:
    """Read a package's list of members and their first bytes, which is quick.

    Raises PackageError if ``open_package`` would fail at the start, too.
    """
    with closing(open_tree(path)) as tree:
        return kind_of(tree).preview(tree, reader)


def open_package(path: Path, reader: ObjectReader, progress: Progress | None = None) -> Package:
    """Read a package from start to end, every member once, in bounded memory.

    ``progress`` is called in the calling thread with the bytes decompressed so far and the bytes in
    all. The reader is called from several threads. Raises PackageError, one line that names the
    file, if the package cannot be read as a whole; a fault of a part of it becomes a fact.
    """
    with closing(open_tree(path)) as tree:
        return kind_of(tree).read(tree, reader, progress)


def _find_kind(
    label: str, look: Callable[[], Tree], kinds: Sequence[PackageKind]
) -> PackageKind | None:
    return next((kind for kind in (*kinds, *KINDS) if _is_one(kind, label, look)), None)


def _is_one(kind: PackageKind, label: str, look: Callable[[], Tree]) -> bool:
    """Return whether the tree is of this kind; a tree that cannot be opened is of no kind."""
    try:
        return kind.recognises(label, look)
    except PackageError:
        return False
