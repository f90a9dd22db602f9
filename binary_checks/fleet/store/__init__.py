"""The store: a folder or an object store, of which no more is asked than both can do alike.

Names are relative, with "/" between their parts. Objects that were created are never changed;
those below DERIVED, which can be made again from the others, are replaced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from binary_checks.errors import ProfileError
from binary_checks.fleet.store.bucket_settings import PROVIDERS

MOST_READ = 256 << 20
"""Bytes of an object that `read` returns; larger ones are read where they lie, with `local`."""
_AT_ONCE = 16
_Answer = TypeVar("_Answer")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")  # of two letters at least: C: is a drive


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """One object of the store."""

    name: str
    size: int  # bytes


class Store(Protocol):
    """Whatever fails raises StoreError, one line with the store's URL and the object's name."""

    @property
    def url(self) -> str:
        """How the user named it, without credentials."""

    def create(self, name: str, content: bytes | Path) -> bool:
        """Write an object whole, unless there is one of that name; whether it was written.

        Of writers at the same time one wins. Where a connection broke, another's object with the
        very same bytes passes for one's own: claims hold something unique.
        """

    def replace(self, name: str, content: bytes) -> None:
        """Write an object that can be made again, in place of the one of its name, if any.

        Readers have the old one or the new one, whole. Only names of DERIVED may be replaced.
        """

    def repeat(self, name: str, source: str) -> None:
        """The same with the bytes of another object, which nobody fetches for it."""

    def read(self, name: str, most: int = MOST_READ) -> bytes | None:
        """All of an object; None where there is none of that name.

        Raises RecordError, before it is in memory, for one of more than so many bytes.
        """

    def pieces(self, name: str) -> Iterator[bytes]:
        """The bytes of an object as the store has them now, piece by piece.

        Raises StoreError for one that is not there, and where they end too early.
        """

    def names(self, prefix: str) -> Iterator[Stored]:
        """Every object whose name begins so, sorted by name; a listing that breaks raises."""

    def folders(self, prefix: str) -> Iterator[str]:
        """What names that begin so have up to and with the next "/", each once, sorted.

        Some servers list those too whose objects were all deleted.
        """

    def delete(self, name: str) -> None:
        """Remove an object; one that is not there is no error. Only retention and logs do it."""

    def local(self, name: str) -> AbstractContextManager[Path]:
        """An object that never changes as a file of this host: its own, or a copy kept by name."""

    def top(self) -> list[str]:
        """What lies at the top, folders with "/", sorted: whatever its name, hidden files aside."""


def open_store(url: str, *, make: bool = False) -> Store:
    """The store at a path, or at a ``file://``, ``s3://``, ``gs://`` or ``az://`` URL.

    ``make`` makes one where there is none yet. Raises ProfileError for what names no store, and
    StoreError where there is none, or it cannot be used.
    """
    from binary_checks.fleet.store.store_mark import demand_mark

    store = _connect(url)
    demand_mark(store, make=make)
    return store


def _connect(url: str) -> Store:
    found = _SCHEME.match(url)
    scheme = found[1].lower() if found else ""
    if scheme in PROVIDERS:
        from binary_checks.fleet.store.bucket_store import connect

        return connect(url)
    if scheme not in ("", "file"):
        meant = ", ".join(f"{each}://…" for each in PROVIDERS)
        raise ProfileError(f"--store: {scheme}: is not a kind of store: give a folder, or {meant}")
    from binary_checks.fleet.store.folder_store import FolderStore

    if not url or "\0" in url:
        raise ProfileError("--store: an empty path, or one with a NUL")
    return FolderStore(_read_file_url(url) if scheme else Path(url), url)


def _read_file_url(url: str) -> Path:
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
        raise ProfileError("--store: a file: URL with a host, a query or a fragment")
    path = Path(url2pathname(parts.path))
    if not path.is_absolute() or "\0" in unquote(parts.path):
        raise ProfileError("--store: a file: URL without an absolute path")
    return path


def ask_at_once(ask: Callable[[str], _Answer], names: Iterable[str]) -> Iterator[_Answer]:
    """The answers in the order of the names: one after the other, each would wait for a server.

    The first question that fails raises what it did.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        yield from pool.map(ask, names)
