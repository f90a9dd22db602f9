"""Options that GCC records in debug information (DW_AT_producer).

For ``-march=native`` the record has what the driver found: the CPU, each instruction set that the
CPU has or lacks, and the sizes of its caches. An option such as ``-march=znver3`` is recorded
alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_CACHE = b"l1-cache-size="
_NATIVE = re.compile(rb"-march=([\w.-]{1,40})((?: -m[\w.=+-]{1,60}){1,300} )--param[ =]\Z")
_SETS = ((b" -mavx512f ", "AVX-512"), (b" -mavx2 ", "AVX2"), (b" -mavx ", "AVX"))
_LONGEST = 8192  # bytes from -march to the size of the cache; GCC 12 needs 1,200
_MOST_PLACES = 64  # records that are examined; equal ones are stored only once


class NativeScanner:
    """Searches for GCC's record of ``-march=native`` while a file is streamed."""

    def __init__(self) -> None:
        self._tail = b""
        self._places = 0
        self._found: set[str] = set()

    def see(self, piece: bytes) -> Iterable[tuple[int, bytes]]:
        """Search the next piece of the file; the caller need not keep any of its bytes."""
        edge = len(_CACHE) - 1  # bytes of a place that may lie on either side
        self._look(self._tail[-edge:] + piece[:edge], self._tail[:-edge])
        self._look(piece, self._tail)
        self._tail = (self._tail + piece[-_LONGEST:])[-_LONGEST:]
        return ()

    def _look(self, text: bytes, before: bytes = b"") -> None:
        """Examine each place in a text; ``before`` are the bytes before the text."""
        at = text.find(_CACHE)
        while at >= 0 and self._places < _MOST_PLACES:
            self._places += 1
            record = (before + text[:at] if at < _LONGEST else text[:at])[-_LONGEST:]
            match = _NATIVE.search(record)
            newest = (name for word, name in _SETS if match and word in match[2])
            if match and (name := next(newest, "")):
                self._found.add(f"{match[1].decode()} with {name}")
            at = text.find(_CACHE, at + 1)

    def conclude(self) -> str:
        """Return a CPU and its newest instruction set, "znver3 with AVX-512"; "" if none."""
        return min(self._found, default="")
