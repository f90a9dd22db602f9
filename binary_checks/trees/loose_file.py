"""One object file on disk as a tree of a single member."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from binary_checks.model import format_of_name
from binary_checks.trees.folder import FileEntry, FolderTree

_BEGINNINGS = (
    b"\x7fELF",
    b"MZ",
    *(bytes.fromhex(magic) for magic in ("feedface", "feedfacf", "cefaedfe", "cffaedfe")),
    *(bytes.fromhex(magic) for magic in ("cafebabe", "cafebabf")),
)
"""First bytes of ELF, PE and Mach-O files, thin and fat; a Java class file begins with cafebabe,
too.
"""


def recognises(path: Path, head: bytes) -> bool:
    """Return whether the file begins like an object file, or has an object file's suffix."""
    return path.is_file() and (begins_object(head) or format_of_name(path.name) is not None)


def begins_object(head: bytes) -> bool:
    """Return whether a file with these first bytes may be an object file."""
    return head.startswith(_BEGINNINGS)


def open_tree(path: Path) -> LooseFile:
    """Return a tree that contains only this file."""
    return LooseFile(path, root=path.parent, within=path.parent, label=path.name)


class LooseFile(FolderTree):
    """A single file; other files in its folder are ignored."""

    def entries(self) -> Sequence[FileEntry]:
        """Return the entry of the file."""
        return [self.find(self.path.name)]
