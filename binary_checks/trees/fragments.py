"""Keeps many small pieces of a large file, by where they lie in it."""

from __future__ import annotations

import tempfile
from array import array
from bisect import bisect_right

_IN_MEMORY = 4 << 20  # bytes kept before they go to an unlinked file
_SAME_PLACE = 4  # pieces that may begin at one offset


class Fragments:
    """Pieces in rising order of their offsets; they may overlap."""

    def __init__(self) -> None:
        self._starts = array("Q")
        self._places = array("Q", [0])  # of each piece among the bytes kept
        self._file: tempfile.SpooledTemporaryFile[bytes] | None = None

    def add(self, offset: int, piece: bytes) -> None:
        """Keep a piece that begins nowhere before the last one."""
        if self._file is None:
            self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115
        self._file.seek(self._places[-1])
        self._file.write(piece)
        self._starts.append(offset)
        self._places.append(self._places[-1] + len(piece))

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
