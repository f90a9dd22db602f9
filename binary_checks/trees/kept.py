"""Keeps bytes of a file that streams by: few in memory, many in an unlinked file."""

from __future__ import annotations

import tempfile
from array import array
from bisect import bisect_right
from typing import IO

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
