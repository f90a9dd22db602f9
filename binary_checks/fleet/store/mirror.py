"""Copies of objects that never change, kept on this host for its further runs."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import time
from collections.abc import Iterable
from pathlib import Path

from binary_checks.cache_folder import make_private, name_cache_folder, take_turns
from binary_checks.errors import StoreError

_MOST = 4 << 30  # bytes of all stores; what was used last goes last
_OFTEN = 256 << 20  # bytes after which it is looked again whether that is too much
_IN_USE = 3600.0  # seconds after its last use for which nothing is removed
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
        part = path.with_name(f".{secrets.token_hex(8)}.part")
        try:
            self._make_room(size)
            make_private(path.parent)
            _write(part, pieces, size)
            part.replace(path)
        except OSError as error:
            reason = error.strerror or str(error)
            raise StoreError(f"{self._url}: {name}: cannot be kept here: {reason}") from None
        finally:
            part.unlink(missing_ok=True)
        return path

    def _make_room(self, size: int) -> None:
        self._added += size
        if self._added >= _OFTEN:
            self._added = 0
            with take_turns(self._root / ".lock", _TURN):
                _remove_oldest(self._root)


def _write(part: Path, pieces: Iterable[bytes], size: int) -> None:
    with part.open("xb") as file:
        for piece in pieces:
            file.write(piece)
        if file.tell() != size:
            raise OSError(f"{file.tell()} of its {size} bytes came")


def _remove_oldest(root: Path) -> None:
    """Remove what was not used for longest, until the rest fits."""
    kept: list[tuple[float, int, Path]] = []
    for folder, _, files in os.walk(root):
        for path in (Path(folder, name) for name in files):
            with contextlib.suppress(OSError):
                found = path.stat()
                kept.append((found.st_mtime, found.st_size, path))
    total = sum(size for _, size, _ in kept)
    for used, size, path in sorted(kept):
        if total <= _MOST or time.time() - used < _IN_USE:
            return
        with contextlib.suppress(OSError):
            path.unlink()
            total -= size
