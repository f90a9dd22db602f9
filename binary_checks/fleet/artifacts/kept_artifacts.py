"""Store and find artifacts: a file counts as stored once its document is in the store."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO

from binary_checks.documents.json_values import DocumentError
from binary_checks.errors import ProfileError, RecordError, StoreError
from binary_checks.files import open_regular
from binary_checks.fleet.artifacts.artifact import (
    FILE_AXES,
    Artifact,
    ArtifactRefusedError,
    read_artifact,
    require_sound,
    write_artifact,
)
from binary_checks.fleet.store import (
    PACKAGES,
    Store,
    artifact_name,
    ask_at_once,
    split_artifact,
)
from binary_checks.fleet.store.kept_facts import keep_facts

_LONGEST = 16 << 20  # bytes of a document
_ONCE = ("file_name", "size", "kind", "project", "version", "subdir", *FILE_AXES)
"""Fields that every push of the same bytes must agree on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Incoming:
    """The contents that are stored with an artifact's document."""

    file: HashedFile
    companions: Mapping[str, HashedFile] = field(default_factory=dict)  # path when pulled -> file
    metadata: bytes | None = None  # METADATA of a wheel
    facts: Path | None = None  # a document of `binary-checks inspect --json`


def keep_artifact(store: Store, artifact: Artifact, incoming: Incoming) -> bool:
    """Store a file and all that belongs to it; return False if the file was stored already.

    The document is written last. A push that was interrupted has therefore stored nothing that
    counts, and the next push of the same bytes completes it. Raises ArtifactRefusedError if the
    store describes those bytes differently, and StoreError if it fails.
    """
    try:
        require_sound(artifact)
    except DocumentError as error:
        raise ProfileError(f"{artifact.file_name}: {error}") from None
    if _is_kept(store, artifact):
        return False
    digest = artifact.sha256
    _keep_file(store, artifact.object_name, incoming.file)
    for each in artifact.companions:
        file = incoming.companions[each.path]
        _keep_file(store, artifact.name_companion(each), file)
    if incoming.metadata is not None:
        store.create(artifact.metadata_name, incoming.metadata)
    if incoming.facts is not None:
        keep_facts(store, digest, incoming.facts)
    if store.create(artifact_name(digest), write_artifact(artifact)):
        return True
    return not _is_kept(store, artifact)


def find_artifact(store: Store, sha256: str) -> Artifact | None:
    """Return the artifact with those bytes, or None if it is not stored. Raises RecordError."""
    name = artifact_name(sha256)
    content = store.read(name, _LONGEST)
    return None if content is None else _read(store, name, content)


def list_artifacts(
    store: Store, digests: Iterable[str] | None = None, broken: list[str] | None = None
) -> Iterator[Artifact]:
    """Yield all stored artifacts, or those with the given SHA-256, in the given order.

    An invalid document adds a line to ``broken``; without ``broken`` it raises RecordError.
    """
    if digests is None:
        listed = (each.name for each in store.names(PACKAGES))
        names = [name for name in listed if split_artifact(name)]
    else:
        names = [artifact_name(each) for each in digests]
    for found in ask_at_once(lambda name: _try(store, name), names):
        if isinstance(found, Artifact):
            yield found
        elif broken is None:
            raise found
        else:
            broken.append(str(found))


def _try(store: Store, name: str) -> Artifact | RecordError:
    """Return the document's artifact, or the error that it causes."""
    try:
        content = store.read(name, _LONGEST)
        if content is None:
            raise RecordError(f"{store.url}: {name}: missing, so nothing is known about it")
        return _read(store, name, content)
    except RecordError as error:
        return error


def _read(store: Store, name: str, content: bytes) -> Artifact:
    artifact = read_artifact(content, f"{store.url}: {name}")
    if artifact_name(artifact.sha256) != name:
        raise RecordError(f"{store.url}: {name}: its document is for {artifact.sha256}")
    return artifact


def _is_kept(store: Store, artifact: Artifact) -> bool:
    """Return whether the artifact is stored.

    Raises ArtifactRefusedError if the store describes it differently.
    """
    known = find_artifact(store, artifact.sha256)
    if known is None:
        return False
    where = f"{artifact.file_name}: {store.url} contains the same bytes"
    for name in _ONCE:
        kept, given = str(getattr(known, name)), str(getattr(artifact, name))
        if given and kept != given:
            message = f"with {name} {kept}" if kept else f"without {name}"
            raise ArtifactRefusedError(f"{where} {message}, but this push states {given}")
    kept_companions = {(each.path, each.sha256) for each in known.companions}
    for each in artifact.companions:
        if (each.path, each.sha256) not in kept_companions:
            raise ArtifactRefusedError(f"{where} without this {each.path}")
    return True


def _keep_file(store: Store, name: str, file: HashedFile) -> None:
    """Store a file under a name that contains its hash; compare it with bytes already there.

    Raises StoreError if they differ.
    """
    if store.create(name, file.path):
        if not file.is_unchanged():
            store.delete(name)  # otherwise the name would promise other bytes for ever
            raise StoreError(f"{file.path.name}: it changed while it was pushed")
        return
    if hash_pieces(store.pieces(name), most=file.size) != file.sha256:
        raise StoreError(f"{store.url}: {name}: its bytes do not match its name")


# Files of this host, hashed, with a check that they have not changed since.

_BLOCK = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class HashedFile:
    """A file of this host, with its hash and the stamp that it had when it was hashed."""

    path: Path
    sha256: str
    size: int
    stamp: tuple[int, ...]  # device, inode, size and times, which change with its bytes

    def is_unchanged(self) -> bool:
        """Return whether nobody has written to the file or replaced it since it was hashed."""
        try:
            return _stamp(self.path.stat()) == self.stamp
        except OSError:
            return False


def hash_file(path: Path) -> HashedFile:
    """Hash a file; follow links. Raises ProfileError if it cannot be read."""
    try:
        with open_regular(path, follow=True) as file:
            before = os.fstat(file.fileno())
            digest = hash_pieces(iter(partial(file.read, _BLOCK), b""))
            after = os.fstat(file.fileno())
    except OSError as error:
        raise ProfileError(f"{path}: cannot be read: {error.strerror or error}") from None
    if _stamp(before) != _stamp(after):
        raise ProfileError(f"{path}: it changed while it was read")
    return HashedFile(path=path, sha256=digest, size=after.st_size, stamp=_stamp(after))


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    times = (found.st_mtime_ns, found.st_ctime_ns)  # programs cannot set ctime back
    return (found.st_dev, found.st_ino, found.st_size, *times)


def hash_content(content: bytes) -> str:
    """Return the SHA-256 of the content."""
    return hashlib.sha256(content).hexdigest()


def fetch_object(
    store: Store, name: str, sha256: str, size: int, file: IO[bytes] | None = None
) -> None:
    """Read a stored object, and write it to ``file`` if given.

    Raises RecordError if the object is missing or does not have the stated bytes.
    """
    if not any(each.name == name for each in store.names(name)):
        raise RecordError(f"{store.url}: {name}: missing")
    if hash_pieces(store.pieces(name), file, size) != sha256:
        raise RecordError(f"{store.url}: {name}: its bytes do not match its name")


def hash_pieces(
    pieces: Iterable[bytes], file: IO[bytes] | None = None, most: int | None = None
) -> str:
    """Return the SHA-256 of all pieces, and write them to ``file`` if it is given.

    Stop after more than ``most`` bytes; the hash is then not the expected one.
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
