"""Keeps bytes while a package is read: few in memory, many in an unlinked file."""

from __future__ import annotations

import tempfile
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock
from typing import IO

from binary_checks.model.protocols import TreeEntry, Want

_MOST = 128 << 20  # bytes of contents of one package; torch 2.15 has 33 MiB of Python, ansible 60
_IN_MEMORY = 16 << 20  # bytes kept before they go to the file
_FRAGMENTS_IN_MEMORY = 4 << 20
_SAME_PLACE = 4  # fragments that may begin at one offset


class Kept:
    """Bytes that are appended, and read from any place."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._starts: list[int] = []
        self.size = 0  # bytes
        self._file: IO[bytes] | None = None

    def append(self, piece: bytes) -> None:
        """Take the next bytes, without a copy as long as they are few."""
        if self._file is None and self.size + len(piece) > _IN_MEMORY:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the rest
            self._file.writelines(self._pieces)
            self._file.flush()  # a full disk is met here, not when it is read
            self._pieces.clear()
        if self._file is None:
            self._pieces.append(piece)
            self._starts.append(self.size)
        else:
            self._file.write(piece)
        self.size += len(piece)

    def read(self, offset: int, length: int) -> bytes:
        """That many bytes from a place on; all must be there, and nothing is appended any more."""
        if self._file is not None:
            self._file.seek(offset)
            return self._file.read(length)
        index = bisect_right(self._starts, offset) - 1
        start = offset - self._starts[index]
        found = self._pieces[index][start : start + length]
        if len(found) == length:
            return found
        last = bisect_right(self._starts, offset + length - 1)
        return b"".join(self._pieces[index:last])[start : start + length]

    def close(self) -> None:
        """Let go of the bytes."""
        self._pieces.clear()
        self._starts.clear()
        if self._file is not None:
            self._file.close()


class Fragments:
    """Pieces by where they lie, in rising order of their offsets; they may overlap."""

    def __init__(self) -> None:
        self._starts = array("Q")
        self._places = array("Q", [0])  # of each piece among the bytes kept
        self._end = 0  # of the last piece
        self._file: tempfile.SpooledTemporaryFile[bytes] | None = None

    def add(self, offset: int, piece: bytes) -> None:
        """Keep a piece that begins nowhere before the last one, and may continue it."""
        if self._file is None:
            self._file = tempfile.SpooledTemporaryFile(max_size=_FRAGMENTS_IN_MEMORY)  # noqa: SIM115
        self._file.seek(self._places[-1])
        self._file.write(piece)
        if self._starts and offset == self._end:
            self._places[-1] += len(piece)
        else:
            self._starts.append(offset)
            self._places.append(self._places[-1] + len(piece))
        self._end = offset + len(piece)

    def find(self, offset: int, length: int) -> bytes | None:
        """Those bytes, None where they do not lie in one piece."""
        last = bisect_right(self._starts, offset) - 1
        for index in range(last, max(last - _SAME_PLACE, -1), -1):
            place = self._places[index] + offset - self._starts[index]
            if self._file is not None and place + length <= self._places[index + 1]:
                self._file.seek(place)
                return self._file.read(length)
        return None

    def close(self) -> None:
        """Let go of the bytes."""
        if self._file is not None:
            self._file.close()
        self._file = None


class KeptContents:
    """The contents that some facts want, as many of them as there is room for.

    Members are charged in their order, by the sizes that their tree lists, before they are read.
    What finds no room is read again by the fact that asks for it.
    """

    def __init__(self, wants: Sequence[Want] = ()) -> None:
        self._wants = tuple(wants)
        self._listed = False
        self._left = _MOST
        self._chosen: dict[str, TreeEntry] = {}
        self._places: dict[str, tuple[int, int]] = {}
        self._full = False  # whether the disk had no more room
        self._kept = Kept()
        self._lock = Lock()

    def expect(self, entries: Sequence[TreeEntry]) -> None:
        """Choose among all members that will be read."""
        self._listed = True
        self._wants = tuple(
            want for want in self._wants if want.beside is None or any(map(want.beside, entries))
        )
        if self._wants:
            for entry in entries:
                self._choose(entry)

    def _choose(self, entry: TreeEntry) -> None:
        size = entry.size
        if any(size <= want.longest and want.chooses(entry) for want in self._wants) and (
            size <= self._left
        ):
            self._left -= size
            self._chosen[entry.stored] = entry

    def wants(self, entry: TreeEntry) -> bool:
        """Whether it is kept; of several members of one name, the last."""
        if not self._listed:  # as members of a stream come, nothing is known of later ones
            self._choose(entry)
        return self._chosen.get(entry.stored) is entry

    @property
    def size(self) -> int:
        """The bytes that are kept."""
        return self._kept.size

    def keep(self, entry: TreeEntry, content: bytes) -> None:
        """Keep the content of a member, as long as the disk has room for it."""
        with self._lock:
            if self._full:
                return
            place = self._kept.size
            try:
                self._kept.append(content)
            except OSError:  # what is not kept is read again: no verdict depends on it
                self._full = True
                self.close()
            else:
                self._places[entry.stored] = place, len(content)

    def find(self, stored: str) -> bytes | None:
        """The content of the member that is stored by that name, None where it is not kept."""
        place = self._places.get(stored)
        return None if place is None else self._kept.read(*place)

    def close(self) -> None:
        """Let go of all contents."""
        self._places.clear()
        with suppress(OSError):  # of a full disk
            self._kept.close()
