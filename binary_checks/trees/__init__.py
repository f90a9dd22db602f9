"""Containers of a package's members: all members are read in one pass, and verified.

Memory is bounded. There is one module for each form, with ``recognises(path, head)`` and
``open_tree(path)``.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from binary_checks.errors import PackageError, Unavailable
from binary_checks.model import Tree
from binary_checks.trees import conda, folder, loose_file, tar_tree
from binary_checks.trees.file_bytes import PackageBytes, open_bytes
from binary_checks.trees.tar_tree import TarTree
from binary_checks.trees.zip import tree as zip_tree
from binary_checks.trees.zip.tree import PartialTree, ReadHead

_HEAD = 512  # bytes; the length of a tar header
# suffixes for which the file need not be opened to recognise its form
_NAMED = (".conda", ".whl", ".zip")


class _Form(Protocol):
    """The functions of a module for one form."""

    def recognises(self, path: Path, head: bytes) -> bool: ...
    def open_tree(self, path: Path) -> Tree: ...


TREES: tuple[_Form, ...] = (conda, zip_tree, tar_tree, loose_file, folder)


def open_tree(path: Path) -> Tree:
    """Open the container of a package's members; the caller must close it.

    Raises PackageError if the file cannot be opened, or has no known form.
    """
    try:
        head = b""
        if not path.is_dir() and not path.name.endswith(_NAMED):
            with open_bytes(path) as file:
                head = file.read(0, _HEAD)
    except OSError as error:  # a name that is too long, …
        raise PackageError(f"{path.name}: cannot be opened: {error.strerror}") from None
    for form in TREES:
        if form.recognises(path, head):
            return form.open_tree(path)
    raise PackageError(f"{path.name}: neither a folder nor a known kind of archive")


def open_part(
    file: PackageBytes, files: ExitStack, look: ReadHead = lambda *_: ()
) -> PartialTree | TarTree:
    """Open the parts of a package that can be read without all of its bytes.

    For a zip archive, read the list of members, and call ``look`` with the first bytes of each
    library; for a ``.conda`` file, read only the archive ``info-*``. ``files`` are closed with the
    tree. Raises Unavailable for a form without a directory of members, PackageError if the file's
    content does not match its suffix.
    """
    if conda.recognises(file.path, b""):
        return conda.open_description(file, files)
    if zip_tree.recognises(file.path, b""):
        return PartialTree(file, files, look)
    raise Unavailable(f"{file.path.name}: its format has no directory, so all of it must be read")
