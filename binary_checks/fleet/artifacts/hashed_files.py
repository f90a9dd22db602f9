"""A file of this host by its bytes, and whether it still has them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from binary_checks.errors import ProfileError
from binary_checks.regular_files import open_regular

_PIECE = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class HashedFile:
    """A file as it was when it was hashed."""

    path: Path
    sha256: str
    size: int
    stamp: tuple[int, ...]  # inode, size and times, which change with its bytes

    def is_unchanged(self) -> bool:
        """Whether nobody has written to it, or put another in its place, since."""
        try:
            return _stamp(self.path.stat()) == self.stamp
        except OSError:
            return False


def hash_file(path: Path) -> HashedFile:
    """Read a file once, behind a link too. Raises ProfileError for what cannot be read."""
    try:
        with open_regular(path, follow=True) as file:
            before = os.fstat(file.fileno())
            digest = hash_pieces(iter(partial(file.read, _PIECE), b""))
            after = os.fstat(file.fileno())
    except OSError as error:
        raise ProfileError(f"{path}: cannot be read: {error.strerror or error}") from None
    if _stamp(before) != _stamp(after):
        raise ProfileError(f"{path}: it changed while it was read")
    return HashedFile(path=path, sha256=digest, size=after.st_size, stamp=_stamp(after))


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    times = (found.st_mtime_ns, found.st_ctime_ns)  # the second one nobody can put back
    return (found.st_dev, found.st_ino, found.st_size, *times)


def hash_content(content: bytes) -> str:
    """The SHA-256 of bytes."""
    return hashlib.sha256(content).hexdigest()


def hash_pieces(
    pieces: Iterable[bytes], file: IO[bytes] | None = None, most: int | None = None
) -> str:
    """The SHA-256 of all of them, which are written to the file, if there is one.

    Of more than so many bytes it is one of the beginning: others than were asked for.
    """
    digest, size = hashlib.sha256(), 0
    for piece in pieces:
        digest.update(piece)
        size += len(piece)
        if most is not None and size > most:
            break
        if file is not None:
            file.write(piece)
    return digest.hexdigest()
