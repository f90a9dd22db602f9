"""Push built packages into a channel, with axes derived from their bytes."""

from __future__ import annotations

import hashlib
import json
import zipfile
from contextlib import closing
from email.parser import BytesParser
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from binary_checks.fleet.artifacts import Artifact, Incoming, hash_file, join_channel, keep_artifact
from binary_checks.fleet.store import Store
from binary_checks.trees import open_tree

PUSHED = "2026-11-22T18:00:00Z"


def publish(store: Store, channel: str, *paths: Path, **said: Any) -> list[Artifact]:
    """Keep the packages, and have them be members of the channel."""
    found = []
    for path in paths:
        artifact, incoming = read_package(path, **said)
        keep_artifact(store, artifact, incoming)
        join_channel(store, channel, artifact)
        found.append(artifact)
    return found


def read_package(path: Path, **said: Any) -> tuple[Artifact, Incoming]:
    """What its bytes say of it."""
    file = hash_file(path)
    metadata = _read_metadata(path) if path.suffix == ".whl" else None
    row = _describe_wheel(metadata) if metadata is not None else _describe_conda(path)
    artifact = Artifact(
        sha256=file.sha256,
        file_name=path.name,
        size=file.size,
        pushed=PUSHED,
        **{**row, **said},
    )
    return artifact, Incoming(file=file, metadata=metadata)


def _read_metadata(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        name = next(each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return archive.read(name)


def _describe_wheel(metadata: bytes) -> dict[str, Any]:
    said = BytesParser().parsebytes(metadata)
    return {
        "kind": "wheel",
        "project": canonicalize_name(said["Name"]),
        "version": said["Version"],
        "requires_python": said["Requires-Python"] or "",
        "metadata_sha256": hashlib.sha256(metadata).hexdigest(),
    }


def _describe_conda(path: Path) -> dict[str, Any]:
    with closing(open_tree(path)) as tree:
        wanted = [entry for entry in tree.entries() if entry.name == "info/index.json"]
        ((_, pieces),) = ((entry, b"".join(data)) for entry, data in tree.contents(wanted))
    record = json.loads(pieces)
    return {
        "kind": "conda",
        "project": record["name"],
        "version": record["version"],
        "subdir": record["subdir"],
        "record": record,
    }
