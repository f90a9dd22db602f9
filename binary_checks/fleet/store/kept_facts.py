"""Store the facts of packages, once for all nights, under the hash of the package."""

from __future__ import annotations

import gzip
import hashlib
import re
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from packaging.version import InvalidVersion, Version

from binary_checks import __version__
from binary_checks.documents.json_values import LARGEST, DocumentError, read_document
from binary_checks.errors import RecordError, StoreError
from binary_checks.files import open_regular
from binary_checks.fleet.store import Store
from binary_checks.fleet.store.store_names import facts_name, facts_prefix

_WRITTEN_BY = re.compile(r"binary-checks ([0-9A-Za-z.+!]{1,64})")


def keep_facts(store: Store, sha256: str, path: Path) -> bool:
    """Store a facts document unless the store has it; return whether it was written.

    A document that is not compressed yet is compressed, so that equal documents give equal bytes.
    Raises RecordError if it is invalid or about another package, and StoreError if the store fails.
    """
    name = facts_name(sha256, _identify(path, sha256))
    if any(each.name == name for each in store.names(name)):
        return False
    try:
        with open_regular(path) as file:
            content = file.read()
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"{store.url}: {name}: cannot be packed: {reason}") from None
    packed = content if path.suffix == ".gz" else gzip.compress(content, compresslevel=6, mtime=0)
    return store.create(name, packed)


def find_facts(store: Store, sha256: str) -> str | None:
    """Return the name of a package's facts, or None if there are none.

    Facts written by this version are preferred, then facts of the newest version.
    """
    names = [each.name for each in store.names(facts_prefix(sha256))]
    return max(names, key=_rank, default=None)


def open_facts(store: Store, sha256: str) -> AbstractContextManager[Path]:
    """Open a package's facts as a file, compressed as in the store; its name ends with ``.gz``.

    Raises StoreError if there are none.
    """
    name = find_facts(store, sha256)
    if name is None:
        raise StoreError(f"{store.url}: {facts_prefix(sha256)}json.gz: the facts are missing")
    return store.local(name)


def identify_facts(store: Store, sha256: str) -> tuple[str, str]:
    """Return the version that wrote a package's facts, and the SHA-256 of the document.

    Raises what `open_facts` raises, and RecordError for invalid facts or facts of another package.
    """
    with open_facts(store, sha256) as path:
        version = _identify(path, sha256)
        with gzip.open(path) as file:
            return version, hashlib.sha256(file.read()).hexdigest()


def _identify(path: Path, sha256: str) -> str:
    """Return the version that wrote a document. Raises RecordError if it is of another package."""
    with suppress(OSError):  # reading says why
        if path.stat().st_size > LARGEST:  # gzip would read zeros after the document byte by byte
            raise RecordError(f"{path.name}: larger than {LARGEST} bytes")
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
    if version is None:
        raise RecordError(f"{path.name}: written by {written_by!r:.80}")
    return version[1]


def _rank(name: str) -> tuple[bool, Version]:
    text = name.rpartition("/")[2].partition(".")[2].removesuffix(".json.gz")
    try:
        return text == __version__, Version(text)
    except InvalidVersion:
        return False, Version("0")
