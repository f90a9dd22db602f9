"""Fetches artifacts into a folder: whole or not at all, by their hashes, and nowhere else."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from binary_checks.errors import ArtifactRefusedError, GatherError, ProfileError, StoreError
from binary_checks.fleet.artifacts.artifact import Artifact
from binary_checks.fleet.artifacts.hashed_files import hash_content, hash_file, hash_pieces
from binary_checks.fleet.artifacts.property_files import write_properties
from binary_checks.fleet.store import Store
from binary_checks.fleet.store.store_names import companion_name, package_name


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
