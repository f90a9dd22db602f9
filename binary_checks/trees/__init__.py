"""What holds the members of a package: one pass over them, each verified, in bounded memory.

A module a form: ``recognises(path, head)`` and ``open_tree(path)``.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from binary_checks.errors import PackageError, Unavailable
from binary_checks.model.protocols import Tree
from binary_checks.trees import conda, folder, loose_file, tar_tree
from binary_checks.trees.file_bytes import PackageBytes, open_bytes
from binary_checks.trees.tar_tree import TarTree
from binary_checks.trees.zip import tree as zip_tree
from binary_checks.trees.zip.tree import GlimpsedTree, ReadHead

_HEAD = 512  # bytes, with which a tar archive begins
_NAMED = (".conda", ".whl", ".zip")  # which names alone tell: the file is not opened to look


class _Form(Protocol):
    """What the module of one form does."""

    def recognises(self, path: Path, head: bytes) -> bool: ...
    def open_tree(self, path: Path) -> Tree: ...


TREES: tuple[_Form, ...] = (conda, zip_tree, tar_tree, loose_file, folder)


def open_tree(path: Path) -> Tree:
    """Open what holds the members of a package; whoever asked closes it.

    Raises PackageError where it cannot be opened, or has no form that is known here.
    """
    try:
        known = path.is_dir() or path.name.endswith(_NAMED)
        head = b"" if known else _read_head(path)
    except OSError as error:  # of a name that is too long, ...
        raise PackageError(f"{path.name}: cannot be opened: {error.strerror}") from None
    for form in TREES:
        if form.recognises(path, head):
            return form.open_tree(path)
    raise PackageError(f"{path.name}: neither a folder nor a known kind of archive")


def open_part(
    file: PackageBytes, files: ExitStack, look: ReadHead = lambda *_: ()
) -> GlimpsedTree | TarTree:
    """Open what can be read of a package without all of its bytes; ``files`` are closed with it.

    Of a zip archive that is every member, and ``look`` says what the first bytes of its libraries
    tell; of a ``.conda`` it is what is said of the package. Raises
    Unavailable for a form without a directory, PackageError for what is not what its name says.
    """
    if conda.recognises(file.path, b""):
        return conda.open_description(file, files)
    if zip_tree.recognises(file.path, b""):
        return GlimpsedTree(file, files, look)
    raise Unavailable(f"{file.path.name}: its form has no directory: all of it must be read")


def _read_head(path: Path) -> bytes:
    with open_bytes(path) as file:
        return file.read(0, _HEAD)
