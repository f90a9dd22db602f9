"""The store: a folder or an object store, behind the operations that both support.

Names are relative, with "/" between their parts. Objects never change once they are created, except
for objects below DERIVED, which are replaced, and can be made again from other objects.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from binary_checks.documents.json_values import DocumentError, dump, read_json
from binary_checks.errors import ProfileError, StoreError
from binary_checks.fleet.store.bucket_settings import PROVIDERS, read_settings
from binary_checks.fleet.store.store_names import (
    ATTEMPT_FOLDERS,
    DERIVED,
    FACTS,
    FILES,
    MARK,
    NIGHT,
    NIGHTS,
    PACKAGES,
    POLICIES,
    RESULTS,
    TOP_LEVEL,
    artifact_name,
    channel_prefix,
    closed_name,
    conda_prefix,
    coordinator_log_name,
    coordinator_log_prefix,
    expired_name,
    facts_name,
    file_prefix,
    frozen_name,
    index_prefix,
    is_night,
    is_safe_part,
    log_name,
    member_name,
    night_folder,
    origin_name,
    origins_prefix,
    package_folder,
    plan_name,
    policy_name,
    promotion_name,
    promotion_prefix,
    push_name,
    push_prefix,
    require_derived,
    result_name,
    result_prefix,
    running_name,
    running_prefix,
    split_artifact,
    split_attempt,
    split_file,
    split_member,
    split_origin,
    table_name,
    verdict_name,
    verdict_prefix,
    withdrawn_name,
    withdrawn_prefix,
)
from binary_checks.processes import user_environment
from binary_checks.safe_text import cut, one_line

__all__ = [
    "ATTEMPT_FOLDERS",
    "DERIVED",
    "FACTS",
    "MARK",
    "MOST_READ",
    "NIGHT",
    "NIGHTS",
    "FILES",
    "PACKAGES",
    "POLICIES",
    "RESULTS",
    "Store",
    "Stored",
    "artifact_name",
    "ask_at_once",
    "channel_prefix",
    "closed_name",
    "conda_prefix",
    "coordinator_log_name",
    "coordinator_log_prefix",
    "expired_name",
    "facts_name",
    "frozen_name",
    "index_prefix",
    "is_night",
    "is_safe_part",
    "log_name",
    "member_name",
    "night_folder",
    "open_store",
    "origin_name",
    "origins_prefix",
    "package_folder",
    "file_prefix",
    "plan_name",
    "policy_name",
    "promotion_name",
    "promotion_prefix",
    "push_name",
    "push_prefix",
    "require_derived",
    "require_mark",
    "result_name",
    "result_prefix",
    "running_name",
    "running_prefix",
    "split_artifact",
    "split_attempt",
    "split_file",
    "split_member",
    "split_origin",
    "table_name",
    "verdict_name",
    "verdict_prefix",
    "withdrawn_name",
    "withdrawn_prefix",
]

MOST_READ = 256 << 20
"""Most bytes that `read` returns; larger objects are read as a file, with `local`."""
_AT_ONCE = 16
_Answer = TypeVar("_Answer")
# of at least two letters, because C: is a drive
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """One object of the store."""

    name: str
    size: int  # bytes


class Store(Protocol):
    """The operations of every store. Failures raise StoreError, with the URL and the object."""

    @property
    def url(self) -> str:
        """The URL that the user gave, without credentials."""

    def create(self, name: str, content: bytes | Path) -> bool:
        """Write an object unless one of that name exists; return whether it was written.

        If several processes write at the same time, one of them wins. After a broken connection,
        another process's equal object may be mistaken for the one written here; claims must
        therefore contain something unique.
        """

    def replace(self, name: str, content: bytes) -> None:
        """Write a derived object, replacing any object of that name.

        Readers get either the old object or the new one, always complete. Only names in DERIVED may
        be replaced.
        """

    def repeat(self, name: str, source: str) -> None:
        """Write a derived object with the bytes of another object, without downloading them."""

    def read(self, name: str, most: int = MOST_READ) -> bytes | None:
        """Return an object's bytes, or None if it does not exist.

        Raises RecordError, before reading it into memory, if it has more than ``most`` bytes.
        """

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield an object's bytes in pieces, always from the store itself.

        Raises StoreError if it does not exist, or if bytes are missing at its end.
        """

    def names(self, prefix: str) -> Iterator[Stored]:
        """Yield the objects whose names begin with ``prefix``, sorted by name.

        Raises StoreError if the listing is incomplete.
        """

    def folders(self, prefix: str) -> Iterator[str]:
        """Yield folders: each name that begins with ``prefix``, cut after its next "/", sorted.

        Some servers also list folders whose objects were all deleted.
        """

    def delete(self, name: str) -> None:
        """Remove an object if it exists. Only retention and logs use this."""

    def local(self, name: str) -> AbstractContextManager[Path]:
        """Open an immutable object as a local file: the store's own file, or a cached copy."""

    def top(self) -> list[str]:
        """Return all names at the top, folders with "/", sorted, except for hidden files."""


def open_store(url: str, *, make: bool = False) -> Store:
    """Return the store at a path, or at a ``file://``, ``s3://``, ``gs://`` or ``az://`` URL.

    ``make`` creates it if it does not exist. Raises ProfileError for an invalid URL, and StoreError
    if there is no store or it cannot be used.
    """
    store = _connect(url)
    require_mark(store, make=make)
    return store


STORE_SCHEMA = "binary-checks/store/1"


def require_mark(store: Store, *, make: bool = False) -> str:
    """Return the id in the store's mark, which distinguishes an empty store from a mistyped URL.

    With ``make``, write a missing mark. Raises StoreError if there is no mark.
    """
    content = store.read(MARK)
    if content is None:
        there = store.top()
        guess = "`binary-checks nightly run --store URL` makes one"
        if there:
            guess = "it contains other files, or an incomplete store"
        if not make:
            raise StoreError(f"{store.url}: not a store: it has no {MARK}; {guess}")
        for name in there:  # it may be somebody's home folder
            if not name.startswith(TOP_LEVEL):
                shown = cut(one_line(name), 80)
                raise StoreError(f"{store.url}: not a store, and not empty: it contains {shown}")
        made = dump({"schema": STORE_SCHEMA, "id": secrets.token_hex(16)})
        store.create(MARK, f"{made}\n".encode())
        content = store.read(MARK) or b""  # another process may have been first
    try:
        row = read_json(content.decode("ascii"))
        schema, found = row["schema"], row["id"]
    except (DocumentError, UnicodeDecodeError, KeyError, TypeError):
        raise StoreError(f"{store.url}: {MARK}: not the mark of a store, or truncated") from None
    if schema != STORE_SCHEMA:
        shown = cut(one_line(json.dumps(schema)), 80)
        raise StoreError(f"{store.url}: {MARK}: its schema is {shown}, not {STORE_SCHEMA}")
    return str(found)


def _connect(url: str) -> Store:
    found = _SCHEME.match(url)
    scheme = found[1].lower() if found else ""
    if scheme in PROVIDERS:
        from binary_checks.fleet.store.bucket_store import BucketStore

        return BucketStore(read_settings(url, user_environment()))
    if scheme not in ("", "file"):
        meant = ", ".join(f"{each}://…" for each in PROVIDERS)
        raise ProfileError(f"--store: {scheme}: not a store; give a folder or {meant}")
    from binary_checks.fleet.store.folder_store import FolderStore

    if not url or "\0" in url:
        raise ProfileError("--store: the path is empty or contains NUL")
    return FolderStore(_read_file_url(url) if scheme else Path(url), url)


def _read_file_url(url: str) -> Path:
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
        raise ProfileError("--store: a file: URL must not have a host, a query or a fragment")
    path = Path(url2pathname(parts.path))
    if not path.is_absolute() or "\0" in unquote(parts.path):
        raise ProfileError("--store: a file: URL needs an absolute path")
    return path


def ask_at_once(ask: Callable[[str], _Answer], names: Iterable[str]) -> Iterator[_Answer]:
    """Yield the function's results in the order of the names, from parallel calls.

    Sequential calls would each wait for a server. Raises what the first failing call raises.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        yield from pool.map(ask, names)
