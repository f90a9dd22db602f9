"""Pushes a file: says what it is, keeps it with what belongs to it, and puts it into a channel."""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from binary_checks.documents.facts import Statement
from binary_checks.documents.json_values import OddityError
from binary_checks.errors import (
    ArtifactRefusedError,
    GatherError,
    PackageError,
    ProfileError,
    StoreError,
)
from binary_checks.fleet.artifacts.artifact import Artifact, demand_sound, write_properties
from binary_checks.fleet.artifacts.axis_claims import AxisValue
from binary_checks.fleet.artifacts.channels import (
    demand_channel,
    demand_free,
    join_channel,
)
from binary_checks.fleet.artifacts.deriving import (
    INSPECT_LIMIT,
    StatedArtifact,
    add_companions,
    choose_commit,
    derive,
    inspect_file,
    read_statement,
    read_texts,
)
from binary_checks.fleet.artifacts.kept_artifacts import (
    HashedFile,
    Incoming,
    find_artifact,
    hash_content,
    hash_file,
    hash_pieces,
    keep_artifact,
)
from binary_checks.fleet.store import Store
from binary_checks.fleet.store.kept_facts import find_facts, open_facts
from binary_checks.fleet.store.store_names import (
    companion_name,
    facts_name,
    is_safe_part,
    package_name,
)
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


# Fetches artifacts into a folder: whole or not at all, by their hashes, and nowhere else.


@dataclass(frozen=True, kw_only=True, slots=True)
class PulledFile:
    """A file that is to lie in the folder."""

    path: str  # below the folder
    sha256: str
    size: int
    stored: str = ""  # the name of the object that has its bytes; "": they are here
    content: bytes = b""


def pull(store: Store, artifacts: Iterable[Artifact], folder: Path) -> list[str]:
    """Write artifacts, what is known of them, licenses and dependencies; which paths are new.

    What is there with the right bytes stays. Raises ArtifactRefusedError where there are others,
    before anything is written, and StoreError where the store has other bytes than it says.
    """
    files = _list_files(artifacts)
    missing = [each for each in files if not _is_there(folder, each)]
    for each in missing:
        _fetch(store, folder, each)
    return [each.path for each in missing]


def _list_files(artifacts: Iterable[Artifact]) -> list[PulledFile]:
    """Each file once. Raises ArtifactRefusedError where two would need one path."""
    found: dict[str, PulledFile] = {}
    for artifact in artifacts:
        for each in _list_own(artifact):
            key = each.path.lower()  # file systems that know no case are many
            known = found.setdefault(key, each)
            if known.sha256 != each.sha256:
                raise ArtifactRefusedError(
                    f"{artifact.file_name}: its {each.path} is another than that of an artifact "
                    "that is pulled with it: pull them into folders of their own"
                )
    return list(found.values())


def _list_own(artifact: Artifact) -> Iterator[PulledFile]:
    digest, name = artifact.sha256, artifact.file_name
    yield PulledFile(
        path=name, sha256=digest, size=artifact.size, stored=package_name(digest, name)
    )
    for each in artifact.companions:
        stored = companion_name(digest, each.sha256, each.path)
        yield PulledFile(path=each.path, sha256=each.sha256, size=each.size, stored=stored)
    properties = write_properties(artifact)
    known = hash_content(properties)
    yield PulledFile(path=f"{name}.meta", sha256=known, size=len(properties), content=properties)


def _is_there(folder: Path, file: PulledFile) -> bool:
    """Whether the path has these bytes. Raises ArtifactRefusedError where it has others."""
    path = _place(folder, file.path)
    if not os.path.lexists(path):
        return False
    with contextlib.suppress(ProfileError):
        if not path.is_symlink() and hash_file(path).sha256 == file.sha256:
            return True
    raise ArtifactRefusedError(f"{path}: something else is there, which is not overwritten")


def _place(folder: Path, below: str) -> Path:
    """Where it is written; a folder that is a link might lead anywhere."""
    path = folder.joinpath(*below.split("/"))
    real = Path(os.path.realpath(folder))
    if Path(os.path.realpath(path.parent)) != real.joinpath(*below.split("/")).parent:
        raise ArtifactRefusedError(f"{path.parent}: a link, which would lead out of the folder")
    return path


def _fetch(store: Store, folder: Path, file: PulledFile) -> None:
    """Write it beside its place, and put it there once its bytes are the right ones."""
    path = _place(folder, file.path)
    part = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("xb") as target:
            pieces = store.pieces(file.stored) if file.stored else (file.content,)
            found = hash_pieces(pieces, target, file.size)
            if found != file.sha256:
                raise StoreError(
                    f"{store.url}: {file.stored}: other bytes than artifact.json says: sha256 "
                    f"{found}, not {file.sha256}"
                )
            target.flush()
            os.fsync(target.fileno())
        _name(part, path)
    except OSError as error:
        raise GatherError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _name(part: Path, path: Path) -> None:
    """Give it its name, unless somebody was faster."""
    try:
        os.link(part, path)
    except FileExistsError:
        raise ArtifactRefusedError(f"{path}: somebody else wrote it meanwhile") from None
    except OSError:  # a file system without links
        part.replace(path)
