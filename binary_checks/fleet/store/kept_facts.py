"""Store the facts of packages, once for all nights, under the hash of the package."""

from __future__ import annotations

import gzip
import hashlib
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from packaging.version import InvalidVersion, Version

from binary_checks import __version__
from binary_checks.documents.json_values import LARGEST, DocumentError, read_document
from binary_checks.errors import RecordError, StoreError
from binary_checks.files import open_regular
from binary_checks.fleet.store import Store
from binary_checks.fleet.store.store_names import facts_name, facts_prefix

_DIGEST = re.compile("[0-9a-f]{64}")
_PIECE = 1 << 20
_WRITTEN_BY = re.compile(r"binary-checks ([0-9A-Za-z.+!]+)")


def keep_facts(store: Store, sha256: str, path: Path) -> bool:
    """Store a facts document, compressed, unless the store has it; return whether it was written.

    Raises RecordError if the document is invalid or about another package, and StoreError if the
    store fails.
    """
    name = facts_name(_require_digest(sha256), _identify(path, sha256))
    if any(each.name == name for each in store.names(name)):
        return False
    with tempfile.TemporaryDirectory(prefix="facts-") as folder:
        packed = Path(folder) / "packed"
        try:
            _pack(path, packed)
        except OSError as error:
            reason = error.strerror or str(error)
            raise StoreError(f"{store.url}: {name}: cannot be packed: {reason}") from None
        return store.create(name, packed)


def find_facts(store: Store, sha256: str) -> str | None:
    """Return the name of a package's facts, or None if there are none.

    Facts written by this version are preferred, then facts of the newest version.
    """
    names = [each.name for each in store.names(facts_prefix(_require_digest(sha256)))]
    return max(names, key=_rank, default=None)


@contextmanager
def open_facts(store: Store, sha256: str) -> Iterator[Path]:
    """Open a package's facts as a temporary file.

    Raises StoreError if there are none, and RecordError if they are invalid.
    """
    name = find_facts(store, sha256)
    if name is None:
        raise StoreError(f"{store.url}: {facts_prefix(sha256)}json.gz: the facts are missing")
    with (
        store.local(name) as packed,
        tempfile.TemporaryDirectory(prefix="facts-") as folder,
    ):
        path = Path(folder) / "facts.json"
        _unpack(packed, path, f"{store.url}: {name}")
        yield path


def identify_facts(store: Store, sha256: str) -> tuple[str, str]:
    """Return the version that wrote a package's facts, and the SHA-256 of the document.

    Raises what `open_facts` raises, and RecordError for facts of another package.
    """
    with open_facts(store, sha256) as path:
        digest = hashlib.sha256()
        with open_regular(path) as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
        return _identify(path, sha256), digest.hexdigest()


def _unpack(packed: Path, path: Path, named: str) -> None:
    try:
        with gzip.open(packed) as source, path.open("wb") as file:
            _copy_bounded(source, file)
    except (EOFError, zlib.error, gzip.BadGzipFile, DocumentError) as error:
        raise RecordError(f"{named}: not whole: {error}") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"{named}: cannot be unpacked: {reason}") from None


def _pack(path: Path, packed: Path) -> None:
    """Compress a file without its name and time, so that equal documents give equal bytes."""
    with (
        open_regular(path) as source,
        packed.open("wb") as file,
        gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as target,
    ):
        shutil.copyfileobj(source, target, _PIECE)


def _copy_bounded(source: gzip.GzipFile, file: IO[bytes]) -> None:
    left = LARGEST
    while piece := source.read(_PIECE):
        left -= len(piece)
        if left < 0:
            raise DocumentError(f"it unpacks to more than {LARGEST} bytes")
        file.write(piece)


def _identify(path: Path, sha256: str) -> str:
    """Return the version that wrote a document. Raises RecordError if it is of another package."""
    try:
        document = read_document(path)
        found, written_by = document["package"]["sha256"], str(document["written_by"])
    except DocumentError as error:
        raise RecordError(f"{path.name}: {error}") from None
    except (KeyError, TypeError):
        raise RecordError(f"{path.name}: not the facts of a package") from None
    if found != sha256:
        raise RecordError(f"{path.name}: facts of {str(found)[:64]}, not of {sha256}")
    version = _WRITTEN_BY.fullmatch(written_by)
    if version is None or len(written_by) > 80:
        raise RecordError(f"{path.name}: written by {written_by!r:.80}")
    return version[1]


def _require_digest(sha256: str) -> str:
    if not _DIGEST.fullmatch(sha256):
        raise StoreError(f"{sha256!r:.80}: not the SHA-256 of a package")
    return sha256


def _rank(name: str) -> tuple[bool, Version]:
    _, _, rest = name.rpartition("/")
    text = rest.partition(".")[2].removesuffix(".json.gz")
    try:
        return text == __version__, Version(text)
    except InvalidVersion:
        return False, Version("0")
