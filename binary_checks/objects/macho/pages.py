"""Hashes the pages of a signed Mach-O file while it streams by, so that none need be kept.

Of which size they are says the signature, at the end of the file; how long it is tells beforehand.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

_SMALL_PAGE, _LARGE_PAGE = 4096, 16384
_DIGEST = 32  # bytes of a SHA-256


def guess_page_size(limit: int, signature: int) -> int:
    """The page size with which the hashes of ``limit`` bytes fit into a signature of that size."""
    return _SMALL_PAGE if -(-limit // _SMALL_PAGE) * _DIGEST <= signature else _LARGE_PAGE


class PageScanner:
    """The SHA-256 of each page from the start of a file to a limit."""

    def __init__(self, limit: int, page_size: int) -> None:
        self.limit = limit
        self.page_size = page_size
        self._seen = 0
        self._begun = sha256()  # of the page that is not complete yet
        self._digests = bytearray()

    def see(self, piece: bytes) -> Iterable[tuple[int, bytes]]:
        """Take the next piece of the file, of which nothing is worth keeping."""
        view = memoryview(piece)[: self.limit - self._seen]
        step = self.page_size
        place = -self._seen % step  # where the first page begins
        self._seen += len(view)
        if place:
            self._begun.update(view[:place])
            if place > len(view):
                return ()
            self._digests += self._begun.digest()
        last = place + (len(view) - place) // step * step
        for start in range(place, last, step):
            self._digests += sha256(view[start : start + step]).digest()
        self._begun = sha256(view[last:])
        return ()

    @property
    def digests(self) -> bytes | None:
        """Of all pages, joined; None where the file did not stream by so far."""
        if self._seen < self.limit:
            return None
        rest = self._begun.digest() if self.limit % self.page_size else b""
        return bytes(self._digests) + rest
