"""Copies of objects that never change, kept on this host for its further runs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from binary_checks.cache_folder import make_private, name_cache_folder, remove_oldest, take_turns
from binary_checks.errors import StoreError
from binary_checks.regular_files import written_beside

_MOST = 4 << 30  # bytes of all stores; what was used last goes last
_OFTEN = 256 << 20  # bytes after which it is looked again whether that is too much
_TURN = 60.0  # seconds for which another may be making room


class Mirror:
    """The copies of one store's objects."""

    def __init__(self, url: str, identity: str) -> None:
        self._url = url
        self._root = name_cache_folder() / "stores"
        self._folder = self._root / hashlib.sha256(identity.encode()).hexdigest()[:32]
        self._added = _OFTEN  # bytes since room was made

    def find(self, name: str) -> Path | None:
        """The copy, if there is one."""
        path = self._folder / name
        try:
            os.utime(path)  # it is used
        except OSError:
            return None
        return path

    def keep(self, name: str, pieces: Iterable[bytes], size: int) -> Path:
        """Make the copy. Raises StoreError where there is no room, or a piece is missing."""
        if size > _MOST:
            raise StoreError(f"{self._url}: {name}: {size} bytes, more than {_MOST} are kept here")
        path = self._folder / name
        try:
            self._make_room(size)
            make_private(path.parent)
            with written_beside(path) as file:
                _write(file, pieces, size)
        except OSError as error:
            reason = error.strerror or str(error)
            raise StoreError(f"{self._url}: {name}: cannot be kept here: {reason}") from None
        return path

    def _make_room(self, size: int) -> None:
        self._added += size
        if self._added >= _OFTEN:
            self._added = 0
            with take_turns(self._root / ".lock", _TURN):
                copies = (each for each in self._root.rglob("*") if each.name != ".lock")
                remove_oldest(filter(Path.is_file, copies), _MOST)


def _write(file: IO[bytes], pieces: Iterable[bytes], size: int) -> None:
    for piece in pieces:
        file.write(piece)
    if file.tell() != size:
        raise OSError(f"{file.tell()} of its {size} bytes came")
