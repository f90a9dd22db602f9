"""Push a file (derive its record, store it, add it to channels) and pull files into a folder."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from binary_checks.documents.facts import Statement
from binary_checks.documents.json_values import DocumentError
from binary_checks.errors import GatherError, PackageError, ProfileError
from binary_checks.fleet.artifacts.artifact import (
    Artifact,
    ArtifactRefusedError,
    CompanionFile,
    hash_record,
    require_sound,
    write_artifact,
)
from binary_checks.fleet.artifacts.axis_claims import AxisValue, StatedValues
from binary_checks.fleet.artifacts.built_from import find_origin_of_build
from binary_checks.fleet.artifacts.channels import join_channel, require_free
from binary_checks.fleet.artifacts.deriving import (
    INSPECT_LIMIT,
    derive,
    inspect_file,
    read_texts,
)
from binary_checks.fleet.artifacts.kept_artifacts import (
    HashedFile,
    Incoming,
    fetch_object,
    find_artifact,
    hash_file,
    keep_artifact,
)
from binary_checks.fleet.artifacts.kept_verdicts import keep_push
from binary_checks.fleet.artifacts.signatures import SigningKey
from binary_checks.fleet.store import Store, is_safe_part
from binary_checks.fleet.stored_nights import now
from binary_checks.model import BinaryConfiguration
from binary_checks.safe_text import cut, one_line


@dataclass(frozen=True, kw_only=True, slots=True)
class PushRequest:
    """The options of a push."""

    stated: StatedValues = field(default_factory=StatedValues)
    given: Mapping[str, AxisValue] = field(default_factory=dict)  # commit, branch, pull_request
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path  # the folder whose git may state the commit and the branch
    channels: Sequence[str] = ()
    companions: Mapping[str, HashedFile] = field(default_factory=dict)  # path when pulled -> file
    timeout: float = INSPECT_LIMIT  # seconds to read one file
    keys: Sequence[SigningKey] = ()  # which sign artifact.json


@dataclass(frozen=True, kw_only=True, slots=True)
class PushEnd:
    """The result of pushing one file."""

    artifact: Artifact  # as stored
    new: bool  # whether it was not stored before
    joined: tuple[str, ...]  # channels that did not contain it before
    remarks: tuple[str, ...] = ()


def push_file(store: Store, path: Path, request: PushRequest) -> PushEnd:
    """Store a file and add it to the channels; pushing the same bytes again changes nothing.

    Raises ArtifactRefusedError, before anything is written, if the file contradicts itself or the
    store; ProfileError and PackageError if the file cannot be pushed; StoreError if the store
    fails.
    """
    file = hash_file(path)
    require_pushable(path.name)
    with inspect_file(path, timeout=request.timeout) as (statement, facts):
        texts = read_texts(path, statement.package)
        origin = find_origin_of_build(
            request.given, request.environment, texts.commits, request.folder, path.name
        )
        artifact = replace(
            derive(file, statement, texts, origin, request.stated),
            companions=tuple(
                CompanionFile(path=below, sha256=each.sha256, size=each.size)
                for below, each in sorted(request.companions.items())
            ),
            pushed=now(),
        )
        try:
            require_sound(artifact)
        except DocumentError as error:  # the package's own metadata is at fault
            raise PackageError(f"{path.name}: {error}") from None
        kept = find_artifact(store, file.sha256) or artifact  # a push changes no record
        for channel in request.channels:
            require_free(store, channel, kept)
        incoming = Incoming(
            file=file, companions=request.companions, metadata=texts.metadata, facts=facts
        )
        new = keep_artifact(store, artifact, incoming)
    kept = artifact if new else find_artifact(store, file.sha256) or artifact
    if request.keys:
        _require_same(kept, artifact)
        keep_push(store, kept, request.keys)
    joined = tuple(each for each in request.channels if join_channel(store, each, kept))
    return PushEnd(
        artifact=kept, new=new, joined=joined, remarks=tuple(_remark(kept, artifact, statement))
    )


def _require_same(kept: Artifact, pushed: Artifact) -> None:
    """Raise ArtifactRefusedError if the stored document is not the one that this push states."""
    differing = [
        each.name
        for each in fields(Artifact)
        if each.name != "pushed" and getattr(kept, each.name) != getattr(pushed, each.name)
    ]
    if differing:
        raise ArtifactRefusedError(
            f"{pushed.file_name}: artifact.json in the store has another {', '.join(differing)} "
            "than this push, so no key signs it"
        )


def require_pushable(name: str) -> None:
    """Raise ProfileError for a file name that a store cannot have."""
    if not is_safe_part(name):
        shown = cut(one_line(repr(name)), 120)
        raise ProfileError(
            f"{shown}: not a valid file name for a store: only letters, digits and ._+=!@,~-, "
            "at most 200 characters, no dot at either end"
        )


def read_companions(licenses: Sequence[str], dependencies: Sequence[str]) -> dict[str, HashedFile]:
    """Return the files to be stored with a push, by their paths when pulled.

    Raises ProfileError for two files with the same name, and for a file that cannot be read.
    """
    found: dict[str, HashedFile] = {}
    for folder, names in (("licenses", licenses), ("dependencies", dependencies)):
        for name in names:
            path = Path(name)
            require_pushable(path.name)
            below = f"{folder}/{path.name}"
            file = hash_file(path)
            if below in found and found[below].sha256 != file.sha256:
                raise ProfileError(
                    f"{found[below].path} and {path}: both would be stored as {below}"
                )
            found[below] = file
    return found


def _remark(kept: Artifact, pushed: Artifact, statement: Statement) -> Iterator[str]:
    """Yield remarks about differences that do not prevent the push, but that users should know."""
    configuration = statement.configuration or BinaryConfiguration()
    if pushed.variant not in ("", "cpu"):
        for claim in configuration.accelerator.claims:
            if claim.by_absence:
                known = f"its variant is {pushed.variant} ({pushed.evidence['variant']})"
                yield f"{known}, but {claim.evidence}"
    for name in ("commit", "branch", "pull_request"):
        old, new = getattr(kept, name), getattr(pushed, name)
        if new and new != old:
            named = f"the store still names the {name.replace('_', ' ')} {old or 'none'}"
            yield f"{named}, although this push states {new} for the same bytes"


# Pulling artifacts into a folder: each file completely or not at all, verified by its hash.


@dataclass(frozen=True, kw_only=True, slots=True)
class PulledFile:
    """A file to be written into the folder."""

    path: str  # relative to the folder
    sha256: str
    size: int
    stored: str = ""  # the name of the object with its bytes; "" if ``content`` has them
    content: bytes = b""


def pull(store: Store, artifacts: Iterable[Artifact], folder: Path) -> list[str]:
    """Write artifacts, their records, licenses and dependencies; return the new paths.

    Files in the folder with the right bytes stay. Raises ArtifactRefusedError, before anything is
    written, if a file with other bytes is in the way, and StoreError if bytes from the store do not
    have the stated hash.
    """
    missing = [each for each in _list_files(artifacts) if not _is_there(folder, each)]
    for each in missing:
        _fetch(store, folder, each)
    return [each.path for each in missing]


def _list_files(artifacts: Iterable[Artifact]) -> list[PulledFile]:
    """Return each file once. Raises ArtifactRefusedError if two files need the same path."""
    found: dict[str, PulledFile] = {}
    for artifact in artifacts:
        for each in _list_own(artifact):
            key = each.path.lower()  # many file systems ignore case
            known = found.setdefault(key, each)
            if known.sha256 != each.sha256:
                raise ArtifactRefusedError(
                    f"{artifact.file_name}: its {each.path} differs from that of an artifact "
                    "pulled with it; pull them into separate folders"
                )
    return list(found.values())


def _list_own(artifact: Artifact) -> Iterator[PulledFile]:
    digest, name = artifact.sha256, artifact.file_name
    yield PulledFile(path=name, sha256=digest, size=artifact.size, stored=artifact.object_name)
    for each in artifact.companions:
        stored = artifact.name_companion(each)
        yield PulledFile(path=each.path, sha256=each.sha256, size=each.size, stored=stored)
    record = write_artifact(artifact)
    known = hash_record(artifact)
    yield PulledFile(path=f"{name}.meta", sha256=known, size=len(record), content=record)


def _is_there(folder: Path, file: PulledFile) -> bool:
    """Return whether the file exists. Raises ArtifactRefusedError if it has other bytes."""
    path = _place(folder, file.path)
    if not os.path.lexists(path):
        return False
    with contextlib.suppress(ProfileError):
        if not path.is_symlink() and hash_file(path).sha256 == file.sha256:
            return True
    raise ArtifactRefusedError(f"{path}: another file exists there, and is not overwritten")


def _place(folder: Path, below: str) -> Path:
    """Return the path to write. Raises ArtifactRefusedError if a link leads out of the folder."""
    path = folder.joinpath(*below.split("/"))
    real = Path(os.path.realpath(folder))
    if Path(os.path.realpath(path.parent)) != real.joinpath(*below.split("/")).parent:
        raise ArtifactRefusedError(f"{path.parent}: a symbolic link that leads out of the folder")
    return path


def _fetch(store: Store, folder: Path, file: PulledFile) -> None:
    """Write a temporary file, and give it its name once its hash is verified."""
    path = _place(folder, file.path)
    part = path.with_name(f".{secrets.token_hex()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("xb") as target:
            if file.stored:
                fetch_object(store, file.stored, file.sha256, file.size, target)
            else:
                target.write(file.content)
            target.flush()
            os.fsync(target.fileno())
        part.replace(path)
    except OSError as error:
        raise GatherError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
