"""One object file on disk as a tree of a single member."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from binary_checks.model.objects import format_of_name
from binary_checks.trees.folder import FileEntry, FolderTree

_BEGINNINGS = (
    b"\x7fELF",
    b"MZ",
    *(bytes.fromhex(magic) for magic in ("feedface", "feedfacf", "cefaedfe", "cffaedfe")),
    *(bytes.fromhex(magic) for magic in ("cafebabe", "cafebabf")),
)
"""How object files begin, and fat ones of macOS; a Java class begins as these do."""


def recognises(path: Path, head: bytes) -> bool:
    """Whether it begins as an object file does, or is called like one."""
    return path.is_file() and (begins_object(head) or format_of_name(path.name) is not None)


def begins_object(head: bytes) -> bool:
    """Whether a file that begins so may be an object file."""
    return head.startswith(_BEGINNINGS)


def open_tree(path: Path) -> LooseFile:
    """Take the file alone."""
    return LooseFile(path, root=path.parent, within=path.parent, label=path.name)


class LooseFile(FolderTree):
    """One file; nothing beside it is looked at."""

    def entries(self) -> Sequence[FileEntry]:
        """That file."""
        return [self.find(self.path.name)]

    def _say(self, what: str) -> str:
        return what
