"""A toy tree: members in a text, whose first line says BOX."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from binary_checks.model import ObjectReader, Progress, TreeEntry, Visited, VisitRequest
from binary_checks.trees.members import MemberReader, Streamed

MAGIC = b"BOX\n"


class BoxEntry(NamedTuple):
    """A member, with its text."""

    name: str
    text: str
    mode: int = 0o100644
    faults: tuple[str, ...] = ()

    @property
    def stored(self) -> str:
        return self.name

    @property
    def size(self) -> int:
        return len(self.text.encode())

    @property
    def compressed_size(self) -> int:
        return self.size


def recognises(path: Path, head: bytes) -> bool:
    return head.startswith(MAGIC) and path.is_file()


def open_tree(path: Path) -> BoxTree:
    return BoxTree(path)


class BoxTree:
    """The members of one box."""

    faults: tuple[str, ...] = ()
    ambiguities: tuple[str, ...] = ()

    def __init__(self, path: Path) -> None:
        self.path, self.label = path, path.name
        content = path.read_bytes()
        self.size = len(content)
        members = json.loads(content.removeprefix(MAGIC))
        self._entries = [BoxEntry(name, text) for name, text in members.items()]

    def entries(self) -> Sequence[BoxEntry]:
        return self._entries

    def each_entry(self) -> Iterator[BoxEntry]:
        return iter(self._entries)

    def find(self, name: str) -> BoxEntry | None:
        return next((each for each in self._entries if each.name == name), None)

    def heads(self, entries: Iterable[TreeEntry]) -> Iterator[bytes]:
        return (self._read(entry)[:64] for entry in entries)

    def visit(
        self, reader: ObjectReader, wanted: VisitRequest, progress: Progress | None = None
    ) -> list[Visited]:
        members = MemberReader(self.label, reader, wanted)
        entries = wanted.only or self._entries
        members.expect(entries)
        contents = [(entry, self._read(entry)) for entry in entries]
        return [
            members.take_whole(entry, content, Streamed(hashlib.sha256(content).hexdigest()))
            for entry, content in contents
        ]

    def pieces(self, entry: TreeEntry) -> Iterator[bytes]:
        yield self._read(entry)

    def _read(self, entry: TreeEntry) -> bytes:
        found = self.find(entry.name)
        return b"" if found is None else found.text.encode()

    def close(self) -> None:
        pass
