"""Holds one artifact against its own bytes: hash, size, and whatever they say of it themselves."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import IO, Any

from packaging.utils import canonicalize_name

from binary_checks.documents.decoding import OddityError, read_json
from binary_checks.errors import (
    BrokenDataError,
    PackageError,
    RecordError,
)
from binary_checks.fleet.artifacts.artifact import Artifact
from binary_checks.fleet.artifacts.named_axes import find_lie
from binary_checks.fleet.artifacts.package_texts import join_text, open_texts
from binary_checks.fleet.store import Store
from binary_checks.fleet.store.kept_facts import demand_facts
from binary_checks.fleet.store.store_names import (
    companion_name,
    metadata_name,
    package_name,
)
from binary_checks.knowledge.configurations import same_version

_INDEX = "info/index.json"
_KINDS = {"whl": "wheel", "conda": "conda"}


def verify_artifact(
    store: Store, artifact: Artifact, names: Mapping[str, int], facts: Sequence[str]
) -> Iterator[str]:
    """A sentence for each thing that is not as its document says.

    ``names`` are all that lie there with their sizes, ``facts`` the objects with its facts.

    Raises StoreError where something is there and cannot be read.
    """
    name = package_name(artifact.sha256, artifact.file_name)
    suffix = artifact.file_name.rpartition(".")[2]
    if _KINDS.get(suffix, artifact.kind) != artifact.kind:
        yield f"its document says that it is of the kind {artifact.kind}"
    elif lie := find_lie(artifact):
        yield lie
    if name not in names:
        yield "its bytes are not there"
    else:
        with _fetched(artifact) as (file, path):
            digest, size = hash_object(store, name, file, most=artifact.size)
            if size > artifact.size:
                stated = artifact.size
                yield f"it has more than {stated} bytes, and its document says {stated}"
            elif digest == artifact.sha256 and size == artifact.size:
                yield from _verify_texts(store, artifact, path, names)
            elif digest == artifact.sha256:
                yield f"it has {size} bytes, and its document says {artifact.size}"
            else:
                yield f"its bytes have the sha256 {digest}"
    yield from _verify_companions(store, artifact, names)
    yield from _verify_facts(store, artifact, facts)


@contextmanager
def _fetched(artifact: Artifact) -> Iterator[tuple[IO[bytes] | None, Path]]:
    """A file of this host for what has to be opened: one at a time lies on the disk."""
    if artifact.kind not in _OWN_TEXTS:
        yield None, Path()
        return
    with tempfile.TemporaryDirectory(prefix="verify-") as folder:
        path = Path(folder) / artifact.file_name
        with path.open("wb") as file:
            yield file, path


def hash_object(
    store: Store, name: str, file: IO[bytes] | None = None, *, most: int | None = None
) -> tuple[str, int]:
    """SHA-256 and size of an object as the store has it now; a file of this host gets its bytes.

    Of a longer one than ``most`` only the beginning is fetched: a server may send without end.
    """
    digest, size = hashlib.sha256(), 0
    for piece in store.pieces(name):
        digest.update(piece)
        size += len(piece)
        if most is not None and size > most:
            break
        if file is not None:
            file.write(piece)
    if file is not None:
        file.flush()
    return digest.hexdigest(), size


def _verify_texts(
    store: Store, artifact: Artifact, path: Path, names: Mapping[str, int]
) -> Iterator[str]:
    if artifact.kind in _OWN_TEXTS:
        try:
            yield from _OWN_TEXTS[artifact.kind](store, artifact, path, names)
        except (PackageError, BrokenDataError, OddityError, UnicodeDecodeError) as error:
            yield f"cannot be read as what it is: {error}"


def _verify_wheel(
    store: Store, artifact: Artifact, path: Path, names: Mapping[str, int]
) -> Iterator[str]:
    """METADATA in it, beside it and in the document are the same, and say the same."""
    own = _read_members(path, _is_metadata)
    if len(own) != 1:
        yield f"it has {len(own)} METADATA files of its own"
        return
    yield from _verify_metadata(store, artifact, own[0], names)
    said = BytesHeaderParser().parsebytes(own[0])
    name, version = str(said["Name"] or ""), str(said["Version"] or "")
    requires = str(said["Requires-Python"] or "")
    if canonicalize_name(name) != artifact.project:
        yield f"its document says that its project is {artifact.project}, its METADATA {name}"
    if not same_version(version, artifact.version):
        yield f"its document says that its version is {artifact.version}, its METADATA {version}"
    if requires.split() != artifact.requires_python.split():
        stated = artifact.requires_python or "nothing"
        yield f"its document says that it requires Python {stated}, its METADATA {requires!r}"


def _is_metadata(name: str) -> bool:
    folder, _, rest = name.partition("/")
    return folder.endswith(".dist-info") and rest == "METADATA"


def _verify_metadata(
    store: Store, artifact: Artifact, own: bytes, names: Mapping[str, int]
) -> Iterator[str]:
    name = metadata_name(artifact.sha256, artifact.file_name)
    digest = hashlib.sha256(own).hexdigest()
    if artifact.metadata_sha256 and digest != artifact.metadata_sha256:
        yield f"its METADATA has the sha256 {digest}, and not that of its document"
    if name in names:
        if names[name] != len(own) or store.read(name) != own:
            yield "the METADATA beside it, which installers read first, is not its own"
    elif artifact.metadata_sha256:
        yield "the METADATA beside it, which its document promises, is not there"


def _verify_conda(_: Store, artifact: Artifact, path: Path, __: object) -> Iterator[str]:
    """index.json is that of the document, from which repodata.json is made."""
    own = _read_members(path, _INDEX.__eq__, in_part=True)
    if len(own) != 1:
        yield f"it has {len(own)} files {_INDEX}"
        return
    record: Any = read_json(own[0].decode("utf-8-sig"))
    if record != artifact.record:
        yield "its index.json is not that of its document"
        return
    for key, value in (
        ("name", artifact.project),
        ("version", artifact.version),
        ("subdir", artifact.subdir),
    ):
        if (record.get(key) or value) != value:
            yield f"its document says {key} {value}, its index.json {record[key]}"


def _read_members(
    path: Path, wanted: Callable[[str], bool], *, in_part: bool = False
) -> list[bytes]:
    with ExitStack() as files:
        tree = open_texts(path, files, in_part=in_part)
        listed = [entry for entry in tree.entries() if wanted(entry.name)]
        return [join_text(tree.pieces(entry)) for entry in listed]


def _verify_companions(store: Store, artifact: Artifact, names: Mapping[str, int]) -> Iterator[str]:
    for each in artifact.companions:
        name = companion_name(artifact.sha256, each.sha256, each.path)
        if name not in names:
            yield f"{each.path}, which belongs to it, is not there"
        elif hash_object(store, name, most=each.size) != (each.sha256, each.size):
            yield f"{each.path}, which belongs to it, has other bytes than its document says"


def _verify_facts(store: Store, artifact: Artifact, facts: Sequence[str]) -> Iterator[str]:
    for name in facts:
        try:
            demand_facts(store, name, artifact.sha256)
        except RecordError as error:
            yield f"its facts: {error}"


_OWN_TEXTS: Mapping[str, Callable[[Store, Artifact, Path, Mapping[str, int]], Iterator[str]]] = {
    "wheel": _verify_wheel,
    "conda": _verify_conda,
}
"""By kind: what a package says of itself; the other kinds say nothing."""
