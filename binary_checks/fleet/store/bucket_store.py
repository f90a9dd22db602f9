"""A store in a bucket, through obstore, with conditional puts and our own retries.

obstore hangs in a process that was forked after using it, so processes must be spawned.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from binary_checks.errors import ProfileError, RecordError, StoreError
from binary_checks.files import (
    make_private,
    name_cache_folder,
    remove_oldest,
    replace_file_when_complete,
    take_turns,
)
from binary_checks.fleet.store import MOST_READ, Stored, require_mark
from binary_checks.fleet.store.bucket_settings import BucketSettings
from binary_checks.fleet.store.store_names import (
    require_derived,
    require_name,
    require_prefix,
    split_file,
)

PAUSES = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds before each retry, shortened randomly by up to a half."""
_LARGEST = 1 << 30  # bytes of one put; larger uploads cannot be conditional
MOST_LISTED = 5_000_000
"""Most objects of one listing; a longer listing is not of our store, or the server is at fault."""
_PIECE = 4 << 20  # bytes of one read
_PART = 32 << 20  # bytes; S3 and Google accept 10,000 parts of an upload, Azure 50,000
_PARTS_AT_ONCE = 3
_SLOWEST = {"connect_timeout": "10s", "timeout": "120s"}
_PATIENCE = 120.0  # seconds after which no retry begins
_ONCE = {"max_retries": 0}  # obstore's own retries would hide whether our put won
_TYPES = {"html": "text/html; charset=utf-8", "json": "application/json", "zst": "application/zstd"}
_Answer = TypeVar("_Answer")


class BucketStore:
    """The store below a prefix of a bucket."""

    def __init__(self, settings: BucketSettings) -> None:
        try:
            import obstore
            import obstore.store
        except ImportError:
            raise ProfileError(
                f"--store {settings.scheme}://…: needs obstore: pip install 'binary-checks[fleet]'"
            ) from None
        self._obstore: Any = obstore
        self._settings = settings
        self._added = _OFTEN  # bytes cached since the size of all copies was checked
        try:
            make = getattr(obstore.store, settings.provider.client)
            self._client: Any = make(
                settings.bucket,
                prefix=settings.prefix or None,
                config=dict(settings.config),
                client_options={**_SLOWEST, "allow_http": settings.allow_http},
                retry_config=_ONCE,
            )
        except Exception as error:
            variables = settings.provider.variables[0].partition("_")[0]
            raise ProfileError(
                f"--store {self.url}: its {variables}_* variables are wrong"
            ) from error

    @property
    def url(self) -> str:
        """The URL of bucket and prefix."""
        return self._settings.url

    def create(self, name: str, content: bytes | Path) -> bool:
        """Write an object unless one of that name exists; return whether it was written."""
        require_name(name)
        try:
            size = content.stat().st_size if isinstance(content, Path) else len(content)
            if isinstance(content, Path) and size > _PART and split_file(name):
                return self._create_in_parts(name, content)
            if size > _LARGEST:
                raise StoreError(f"{self.url}: {name}: {size} bytes, more than {_LARGEST}")
            whole = content.read_bytes() if isinstance(content, Path) else content
        except OSError as error:
            reason = error.strerror or str(error)
            raise StoreError(f"{self.url}: {name}: cannot be written: {reason}") from None
        tried = 0

        def put() -> bool:
            nonlocal tried
            tried += 1
            self._obstore.put(self._client, name, whole, mode="create")
            return True

        def taken() -> bool:
            # An earlier try whose answer was lost may have written the object.
            return tried > 1 and self.read(name) == whole

        return self._ask(name, "cannot be written", put, taken=taken)

    def _create_in_parts(self, name: str, path: Path) -> bool:
        """Upload a large object in parts; it appears when the last part is complete.

        Such an upload cannot be conditional, and need not be: other processes write the same bytes
        under a name that contains their hash.
        """
        head = partial(self._obstore.head, self._client, name)
        if self._ask(name, "cannot be read", lambda: bool(head()), missing=lambda: False):
            return False
        parts = {"use_multipart": True, "chunk_size": _PART, "max_concurrency": _PARTS_AT_ONCE}
        put = partial(self._obstore.put, self._client, name, path, **parts)
        return self._ask(name, "cannot be written", lambda: bool(put()))

    def replace(self, name: str, content: bytes) -> None:
        """Write a derived object, with the media type that browsers and installers expect."""
        attributes = {
            "Content-Type": _name_type(require_derived(name)),
            "Cache-Control": "no-cache",
        }
        put = partial(self._obstore.put, self._client, name, content, attributes=attributes)
        self._ask(name, "cannot be written", partial(put, mode="overwrite"))

    def repeat(self, name: str, source: str) -> None:
        """Write a derived object with the bytes of another object, copied by the server."""
        require_derived(name)
        require_name(source)
        self._ask(name, "cannot be written", lambda: self._obstore.copy(self._client, source, name))

    def read(self, name: str, most: int = MOST_READ) -> bytes | None:
        """Return an object's bytes, or None if it does not exist."""
        require_name(name)

        def get() -> bytes | None:
            found = self._obstore.get(self._client, name)
            if found.meta["size"] > most:
                raise RecordError(f"{self.url}: {name}: larger than {most} bytes")
            return bytes(found.bytes())

        return self._ask(name, "cannot be read", get, missing=lambda: None)

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield an object's bytes, requesting each piece separately.

        A single request for a large file would exceed the time limit of requests.
        """
        require_name(name)
        head = partial(self._obstore.head, self._client, name)
        size = self._ask(name, "cannot be read", head)["size"]
        for start in range(0, size, _PIECE):
            end = min(start + _PIECE, size)
            get = partial(self._obstore.get_range, self._client, name, start=start, end=end)
            piece = bytes(self._ask(name, "cannot be read", get))
            if len(piece) != end - start:
                raise StoreError(f"{self.url}: {name}: cannot be read: bytes are missing")
            yield piece

    def names(self, prefix: str) -> Iterator[Stored]:
        """Yield the objects whose names begin with ``prefix``, sorted by name."""
        # Servers can only list by whole parts of names.
        folder = require_prefix(prefix).rpartition("/")[0]
        found = self._ask(prefix, "cannot be listed", lambda: self._list(folder))
        yield from sorted(
            (each for each in found if each.name.startswith(prefix)), key=attrgetter("name")
        )

    def folders(self, prefix: str) -> Iterator[str]:
        """Yield folders: each name that begins with ``prefix``, cut after its next "/", sorted."""
        folder = require_prefix(prefix).rpartition("/")[0]
        folders, _ = self._ask(prefix, "cannot be listed", lambda: self._list_level(folder))
        yield from sorted(
            f"{name}/" for name in folders if name.startswith(prefix) and _is_name(name)
        )

    def delete(self, name: str) -> None:
        """Remove an object if it exists."""
        require_name(name)
        self._ask(
            name,
            "cannot be deleted",
            lambda: self._obstore.delete(self._client, name),
            missing=lambda: None,
        )

    @contextmanager
    def local(self, name: str) -> Iterator[Path]:
        """Open a copy of the object; the copy is cached for all runs on this host."""
        require_name(name)
        path = self._cache / name
        try:
            os.utime(path)  # marks it as used
        except OSError:
            self._ask(name, "cannot be read", lambda: self._copy(name, path))
        yield path

    def top(self) -> list[str]:
        """Return all names at the top, folders with "/", sorted."""
        folders, objects = self._ask("", "cannot be listed", lambda: self._list_level(""))
        names = sorted([*(f"{name}/" for name in folders), *objects])
        return [name for name in names if not name.startswith(".")]

    @cached_property
    def _cache(self) -> Path:
        """The folder of copies, which no other store has, nor any earlier store at the same URL."""
        identity = f"{self._settings.host} {self.url} {require_mark(self)}"
        return _name_copies() / hashlib.sha256(identity.encode()).hexdigest()[:32]

    def _copy(self, name: str, path: Path) -> None:
        """Cache an object. Raises StoreError if there is no room, or if bytes are missing."""
        found = self._obstore.get(self._client, name)
        size = found.meta["size"]
        try:
            self._added += size
            if self._added >= _OFTEN:
                self._added = 0
                _make_room()
            make_private(path.parent)
            with replace_file_when_complete(path) as file:
                for piece in found.stream(min_chunk_size=_STREAMED):
                    file.write(piece)
                if file.tell() != size:
                    raise OSError(f"{file.tell()} of its {size} bytes arrived")
        except OSError as error:
            reason = error.strerror or str(error)
            raise StoreError(f"{self.url}: {name}: cannot be cached: {reason}") from None

    def _list(self, folder: str) -> list[Stored]:
        batches = self._obstore.list(self._client, prefix=folder or None, chunk_size=1000)
        found: list[Stored] = []
        for count, row in enumerate((row for batch in batches for row in batch), 1):
            if count > MOST_LISTED:  # a faulty server may never stop
                raise StoreError(f"{self.url}: {folder}: more than {MOST_LISTED:,} objects")
            if _is_name(row["path"]):
                found.append(Stored(name=row["path"], size=row["size"]))
        return found

    def _list_level(self, folder: str) -> tuple[list[str], list[str]]:
        """Return the names of the folders and objects of one level."""
        found = self._obstore.list_with_delimiter(self._client, folder or None)
        return [*found["common_prefixes"]], [row["path"] for row in found["objects"]]

    def _ask(
        self,
        name: str,
        problem: str,
        ask: Callable[[], _Answer],
        *,
        missing: Callable[[], _Answer] | None = None,
        taken: Callable[[], _Answer] | None = None,
    ) -> _Answer:
        """Send a request until it succeeds or a retry is useless. Raises StoreError."""
        until = time.monotonic() + _PATIENCE
        for pause in (*PAUSES, None):
            refusal = Refusal(reason="")
            try:
                return ask()
            except StoreError:
                raise
            except Exception as error:  # obstore's own errors, ValueError or OSError
                refusal = read_refusal(error, self._settings)
            if refusal.missing and missing is not None:
                return missing()
            if refusal.taken and taken is not None:
                return taken()
            if not refusal.again or pause is None or time.monotonic() > until:
                break
            time.sleep(pause * (0.5 + random.random() / 2))  # noqa: S311 - no secret
        where = f"{self.url}: {name}" if name else self.url
        raise StoreError(f"{where}: {problem}: {refusal.reason}")


def _name_type(name: str) -> str:
    """Return the media type of an object; pip rejects pages without the right one."""
    last = name.rpartition("/")[2]
    if last == "index.json":
        return "application/vnd.pypi.simple.v1+json"
    return _TYPES.get(last.rpartition(".")[2], "application/octet-stream")


def _is_name(name: str) -> bool:
    try:
        require_name(name)
    except StoreError:
        return False
    return True


# Failed requests to an object store: whether to retry, and a short reason.

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w{1,60})</Code>|\(code: (\w{1,60})\)")
_KIND = re.compile(r"kind: (\w{1,20}),")
_BUSY = {
    "SlowDown",
    "InternalError",
    "ServiceUnavailable",
    "RequestTimeout",
    # Two writers at the same time, neither of which may have won:
    "ConditionalRequestConflict",
}
_NO_BUCKET = {"NoSuchBucket", "ContainerNotFound"}
_TAKEN = "BlobAlreadyExists"  # Azure answers it with status 409; other servers answer 412
# Addresses from which a cloud's machines get credentials:
_METADATA = re.compile(r"169\.254\.169\.254|metadata\.google\.internal|http://metadata/")


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """The reason why a request failed."""

    reason: str
    again: bool = False  # whether a retry may succeed
    missing: bool = False  # the object does not exist
    taken: bool = False  # the object exists already


def read_refusal(error: Exception, settings: BucketSettings) -> Refusal:
    """Read an error of obstore; only its codes are kept, because its text may contain secrets."""
    text = str(error)
    status = int(found[1]) if (found := _STATUS.search(text)) else 0
    code = (found[1] or found[2]) if (found := _CODE.search(text)) else ""
    if _METADATA.search(text):
        return Refusal(reason=f"no credentials: set {settings.provider.credentials}")
    if not status and not code:
        return _read_broken(text, settings.host or settings.provider.name)
    missing = isinstance(error, FileNotFoundError) and code not in _NO_BUCKET
    conflict = status == 409 and code != _TAKEN
    busy = status >= 500 or status in (408, 429) or conflict or code in _BUSY
    words = " ".join(filter(None, (str(status or ""), code)))
    explained = ": there is no such bucket" if code in _NO_BUCKET else ""
    return Refusal(
        reason=f"the server answers {words}{explained}",
        again=busy,
        missing=missing,
        taken=type(error).__name__ == "AlreadyExistsError" and not busy,
    )


def _read_broken(text: str, server: str) -> Refusal:
    kind = found[1].lower() if (found := _KIND.search(text)) else ""
    if "HTTP error" in text or kind:
        words = {"connect": "no connection to", "timeout": "no timely answer from"}
        return Refusal(reason=f"{words.get(kind, 'a broken connection to')} {server}", again=True)
    return Refusal(reason=f"{server} sent an unreadable answer")


# A cache of objects that never change, for later runs on this host.

_MOST = 4 << 30  # bytes of all stores; the least recently used objects are removed first
_OFTEN = 256 << 20  # bytes added before the size is checked again
_STREAMED = 1 << 20  # bytes of one piece
_TURN = 60.0  # seconds that another process may take to make room


def _name_copies() -> Path:
    return name_cache_folder() / "stores"


def _make_room() -> None:
    root = _name_copies()
    with take_turns(root / ".lock", _TURN):
        copies = (each for each in root.rglob("*") if each.name != ".lock")
        remove_oldest(filter(Path.is_file, copies), _MOST)
