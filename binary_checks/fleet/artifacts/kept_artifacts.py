"""Keeps artifacts in a store, and finds them there: a file counts once its document is there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from binary_checks.documents.decoding import OddityError
from binary_checks.errors import ArtifactRefusedError, ProfileError, RecordError, StoreError
from binary_checks.fleet.artifacts.artifact import FILE_AXES, Artifact
from binary_checks.fleet.artifacts.artifact_records import (
    demand_sound,
    read_artifact,
    write_artifact,
)
from binary_checks.fleet.artifacts.hashed_files import HashedFile, hash_pieces
from binary_checks.fleet.store import Store, ask_at_once
from binary_checks.fleet.store.kept_facts import keep_facts
from binary_checks.fleet.store.store_names import (
    PACKAGES,
    artifact_name,
    companion_name,
    metadata_name,
    package_name,
    split_artifact,
)

_LONGEST = 16 << 20  # bytes of a document
_ONCE = ("file_name", "size", "kind", "project", "version", "subdir", *FILE_AXES)
"""Of the same bytes these are the same, whoever pushes them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Incoming:
    """What is kept of an artifact beside its document."""

    file: HashedFile
    companions: Mapping[str, HashedFile] = field(default_factory=dict)  # by their paths there
    metadata: bytes | None = None  # METADATA of a wheel
    facts: Path | None = None  # a document of `binary-checks inspect --json`


def keep_artifact(store: Store, artifact: Artifact, incoming: Incoming) -> bool:
    """Keep a file and all that belongs to it, unless it is kept; whether it was not.

    The document comes last: a push that ends before it has left nothing that counts, and the next
    one of the same bytes goes on. Raises ArtifactRefusedError where the store has those bytes as
    something else, and StoreError where it fails.
    """
    try:
        demand_sound(artifact)
    except OddityError as error:
        raise ProfileError(f"{artifact.file_name}: {error}") from None
    if _is_kept(store, artifact):
        return False
    digest = artifact.sha256
    _keep_file(store, package_name(digest, artifact.file_name), incoming.file)
    for each in artifact.companions:
        file = incoming.companions[each.path]
        _keep_file(store, companion_name(digest, each.sha256, each.path), file)
    if incoming.metadata is not None:
        store.create(metadata_name(digest, artifact.file_name), incoming.metadata)
    if incoming.facts is not None:
        keep_facts(store, digest, incoming.facts)
    if store.create(artifact_name(digest), write_artifact(artifact)):
        return True
    return not _is_kept(store, artifact)


def find_artifact(store: Store, sha256: str) -> Artifact | None:
    """What the store says of those bytes; None: it does not keep them. Raises RecordError."""
    name = artifact_name(sha256)
    content = store.read(name, _LONGEST)
    return None if content is None else _read(store, name, content)


def list_artifacts(
    store: Store, digests: Iterable[str] | None = None, broken: list[str] | None = None
) -> Iterator[Artifact]:
    """All that the store keeps, or those of these SHA-256, in their order.

    Of a document that is not whole ``broken`` gets a line; without it, RecordError is raised.
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
    """What a document says, or why it says nothing."""
    try:
        content = store.read(name, _LONGEST)
        if content is None:
            raise RecordError(f"{store.url}: {name}: not there, so nothing is known of it")
        return _read(store, name, content)
    except RecordError as error:
        return error


def _read(store: Store, name: str, content: bytes) -> Artifact:
    artifact = read_artifact(content, f"{store.url}: {name}")
    if artifact_name(artifact.sha256) != name:
        raise RecordError(f"{store.url}: {name}: its document is of {artifact.sha256}")
    return artifact


def _is_kept(store: Store, artifact: Artifact) -> bool:
    """Whether it is there. Raises ArtifactRefusedError where it is there as something else."""
    known = find_artifact(store, artifact.sha256)
    if known is None:
        return False
    where = f"{artifact.file_name}: {store.url} keeps the same bytes"
    for name in _ONCE:
        kept, given = str(getattr(known, name)), str(getattr(artifact, name))
        if given and kept != given:
            said = f"with {name} {kept}" if kept else f"without {name}"
            raise ArtifactRefusedError(f"{where} {said}, and this is pushed with {given}")
    kept_beside = {(each.path, each.sha256) for each in known.companions}
    for each in artifact.companions:
        if (each.path, each.sha256) not in kept_beside:
            raise ArtifactRefusedError(f"{where} without this {each.path}")
    return True


def _keep_file(store: Store, name: str, file: HashedFile) -> None:
    """Keep a file under a name that has its hash; bytes that are there already are held against it.

    Raises StoreError for others.
    """
    if store.create(name, file.path):
        if not file.is_unchanged():
            store.delete(name)  # else its bytes would never be those that the name promises
            raise StoreError(f"{file.path.name}: it changed while it was pushed")
        return
    if hash_pieces(store.pieces(name), most=file.size) != file.sha256:
        raise StoreError(f"{store.url}: {name}: holds other bytes than its name says")
