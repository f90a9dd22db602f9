"""What a tree holds: one module a kind of package, each with the same three functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path

from binary_checks.errors import PackageError
from binary_checks.model.objects import Format
from binary_checks.model.packages import Package
from binary_checks.model.protocols import (
    ObjectReader,
    PackageKind,
    Preview,
    Progress,
    Reading,
    Tree,
    Want,
)
from binary_checks.packages import (
    conda,
    conda_record,
    cpp_archive,
    folder,
    installed,
    single_object,
    unpacked_wheel,
    wheel,
)
from binary_checks.packages import conda as conda_outline
from binary_checks.trees import open_tree
from binary_checks.trees.kept_bytes import KeptContents
from binary_checks.trees.members import SOURCE_CODE

__all__ = [
    "KINDS",
    "Preview",
    "Progress",
    "kind_of",
    "open_package",
    "outline_of",
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
    single_object,
    unpacked_wheel,
    folder,
)


def outline_of(tree: Tree, reader: ObjectReader) -> Package:
    """Read of a package what a part of its bytes shows, out of a tree that `open_part` opened.

    Raises PackageError for what is none, Unavailable where too much would have to be read.
    """
    if conda.recognises(tree.label, lambda: tree):
        return conda_outline.outline(tree, reader)
    return kind_of(tree).read(tree, reader)


def recognises(path: Path, *, folders: bool = False) -> bool:
    """Whether a file is a package of a kind that is known here, by its name if that says so.

    With ``folders`` it is a folder, which may be one by what is in it: its label ends with "/".
    """
    with ExitStack() as stack:

        @cache
        def look() -> Tree:
            return stack.enter_context(closing(open_tree(path)))

        return _find_kind(f"{path.name}/" if folders else path.name, look) is not None


def kind_of(tree: Tree) -> PackageKind:
    """Say what it holds. Raises PackageError for nothing that is known here."""
    if (kind := _find_kind(tree.label, lambda: tree)) is None:
        raise PackageError(f"{tree.label}: not a known kind of package")
    return kind


def read_tree(
    tree: Tree, reader: ObjectReader, progress: Progress | None = None, wants: Sequence[Want] = ()
) -> Reading:
    """Read what a tree holds, every member once, and keep the contents that are wanted.

    Raises PackageError where it cannot be read as a whole.
    """
    kept, watched = KeptContents(wants), _WatchedReader(reader)
    try:
        package = kind_of(tree).read(tree, watched, progress, kept)
        return Reading(package=package, kept=kept, formats=frozenset(watched.formats))
    except BaseException:
        kept.close()
        raise


class _WatchedReader:
    """An ObjectReader that notes which formats the first bytes of members announce."""

    def __init__(self, reader: ObjectReader) -> None:
        self.formats: set[Format] = set()
        self._reader = reader
        self.recognise, self.plan = reader.recognise, reader.plan
        self.read_objects = reader.read_objects

    def announce(self, path: str, head: bytes) -> Format | None:
        """What the reader announces; source code is no object, as a preview has it."""
        found = self._reader.recognise(head)
        if found is not None and not path.endswith(SOURCE_CODE):
            self.formats.add(found)
        return found or self._reader.announce(path, head)


def preview(path: Path, reader: ObjectReader) -> Preview:
    """Look at a package's directory and the first bytes of its members: quick, and no verdict.

    Raises PackageError where ``open_package`` could not begin either.
    """
    with closing(open_tree(path)) as tree:
        return kind_of(tree).preview(tree, reader)


def open_package(path: Path, reader: ObjectReader, progress: Progress | None = None) -> Package:
    """Read a package from start to end, every member once, in bounded memory.

    ``progress`` is told, in the calling thread, how many of how many bytes have been inflated.
    The reader is called from several threads. Raises PackageError, one line that names the file,
    where the package cannot be read as a whole; what is wrong with a part of it becomes a fact.
    """
    with closing(open_tree(path)) as tree:
        return kind_of(tree).read(tree, reader, progress)


def _find_kind(label: str, look: Callable[[], Tree]) -> PackageKind | None:
    return next((kind for kind in KINDS if _is_one(kind, label, look)), None)


def _is_one(kind: PackageKind, label: str, look: Callable[[], Tree]) -> bool:
    """A file that cannot be opened for a look is none by its content."""
    try:
        return kind.recognises(label, look)
    except PackageError:
        return False
