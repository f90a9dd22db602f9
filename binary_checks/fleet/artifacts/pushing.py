"""Pushes a file: says what it is, keeps it with what belongs to it, and puts it into a channel."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from binary_checks.documents.decoding import OddityError
from binary_checks.documents.facts_reader import Statement
from binary_checks.errors import PackageError, ProfileError
from binary_checks.fleet.artifacts.artifact import Artifact
from binary_checks.fleet.artifacts.artifact_records import demand_sound
from binary_checks.fleet.artifacts.axis_claims import AxisValue
from binary_checks.fleet.artifacts.channel_members import (
    demand_channel,
    demand_free,
    join_channel,
)
from binary_checks.fleet.artifacts.commits import choose_commit
from binary_checks.fleet.artifacts.deriving import StatedArtifact, add_companions, derive
from binary_checks.fleet.artifacts.hashed_files import HashedFile, hash_file
from binary_checks.fleet.artifacts.inspected_files import (
    INSPECT_LIMIT,
    inspect_file,
    read_statement,
)
from binary_checks.fleet.artifacts.kept_artifacts import Incoming, find_artifact, keep_artifact
from binary_checks.fleet.artifacts.package_texts import read_texts
from binary_checks.fleet.store import Store
from binary_checks.fleet.store.kept_facts import find_facts, open_facts
from binary_checks.fleet.store.safe_names import is_safe_part
from binary_checks.fleet.store.store_names import facts_name
from binary_checks.lines import cut, one_line
from binary_checks.model.binary_configuration import BinaryConfiguration


@dataclass(frozen=True, kw_only=True, slots=True)
class PushRequest:
    """How files are pushed."""

    stated: StatedArtifact = field(default_factory=StatedArtifact)
    commit: str = ""  # as the user gives it
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path  # whose git may say the commit
    channels: Sequence[str] = ()
    companions: Mapping[str, HashedFile] = field(default_factory=dict)  # by their paths beside it
    timeout: float = INSPECT_LIMIT  # seconds, to read one file


@dataclass(frozen=True, kw_only=True, slots=True)
class PushEnd:
    """What became of a file."""

    artifact: Artifact  # as the store has it
    new: bool  # whether it was not kept before
    joined: tuple[str, ...]  # channels that had it not before
    remarks: tuple[str, ...] = ()


def push_file(store: Store, path: Path, request: PushRequest) -> PushEnd:
    """Keep a file, and put it into the channels; the same bytes again are nothing.

    Raises ArtifactRefusedError for what contradicts itself or the store, before anything of it is
    written, ProfileError and PackageError for what cannot be pushed, and StoreError.
    """
    file = hash_file(path)
    demand_pushable(path.name)
    for channel in request.channels:
        demand_channel(channel)
    with _find_facts(store, file, request.timeout) as (statement, facts):
        texts = read_texts(path, statement.package)
        commit = choose_commit(
            request.commit, request.environment, texts.commits, request.folder, path.name
        )
        artifact = derive(file, statement, texts, commit, request.stated)
        artifact = add_companions(artifact, request.companions)
        try:
            demand_sound(artifact)
        except OddityError as error:  # what the package says of itself
            raise PackageError(f"{path.name}: {error}") from None
        for channel in request.channels:
            demand_free(store, channel, artifact)
        incoming = Incoming(
            file=file, companions=request.companions, metadata=texts.metadata, facts=facts
        )
        new = keep_artifact(store, artifact, incoming)
    kept = artifact if new else find_artifact(store, file.sha256) or artifact
    joined = tuple(each for each in request.channels if join_channel(store, each, kept))
    return PushEnd(
        artifact=kept, new=new, joined=joined, remarks=tuple(_remark(kept, artifact, statement))
    )


def demand_pushable(name: str) -> None:
    """Raise ProfileError for a file name that a store cannot have."""
    if not is_safe_part(name):
        shown = cut(one_line(repr(name)), 120)
        raise ProfileError(
            f"{shown}: no store has an object of that name: letters, digits and ._+=!@,~- alone, "
            "at most 200, and no dot at either end"
        )


def read_companions(licenses: Sequence[str], dependencies: Sequence[str]) -> dict[str, HashedFile]:
    """Files that belong to what is pushed, by the paths at which they are pulled with it.

    Raises ProfileError for two of one name, and for what cannot be read.
    """
    found: dict[str, HashedFile] = {}
    for folder, names in (("licenses", licenses), ("dependencies", dependencies)):
        for name in names:
            path = Path(name)
            demand_pushable(path.name)
            below = f"{folder}/{path.name}"
            file = hash_file(path)
            if below in found and found[below].sha256 != file.sha256:
                raise ProfileError(f"{found[below].path} and {path}: both would be {below}")
            found[below] = file
    return found


def tell_host() -> AxisValue:
    """The system of this host, for files that do not say for which they are."""
    system = {"Linux": "linux", "Darwin": "macos", "Windows": "windows"}.get(platform.system(), "")
    if system != "linux":
        return AxisValue(system, "it was pushed from there")
    try:
        said = platform.freedesktop_os_release()
    except OSError:
        return AxisValue(system, "it was pushed from there")
    name = f"{said.get('ID', 'linux')} {said.get('VERSION_ID', '')}".strip()
    value = "musllinux" if said.get("ID") == "alpine" else system
    return AxisValue(value, f"os-release of the host that pushed it: {cut(one_line(name), 80)}")


@contextmanager
def _find_facts(
    store: Store, file: HashedFile, timeout: float
) -> Iterator[tuple[Statement, Path | None]]:
    """What is known of the bytes: as the store has it already, or read anew."""
    if find_facts(store, file.sha256) == facts_name(file.sha256):
        with open_facts(store, file.sha256) as path:
            statement = read_statement(path, file.path.name)
        if statement.package.file_name == file.path.name:
            yield statement, None
            return
    with inspect_file(file.path, timeout=timeout) as inspected:
        yield inspected.statement, inspected.facts


def _remark(kept: Artifact, pushed: Artifact, statement: Statement) -> Iterator[str]:
    """What is no contradiction, and should be known."""
    configuration = statement.configuration or BinaryConfiguration()
    evidence = pushed.evidence.get("variant", "")
    if pushed.variant not in ("", "cpu"):
        for claim in configuration.accelerator.claims:
            if claim.by_absence:
                yield f"its variant is {pushed.variant} ({evidence}), but {claim.evidence}"
    if kept.commit != pushed.commit:
        yield f"kept as built from {kept.commit}, and the same bytes come from {pushed.commit}"
