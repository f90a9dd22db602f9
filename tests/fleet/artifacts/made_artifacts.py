"""Artifacts of a few bytes, with kind and axes given instead of derived."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from binary_checks.fleet.artifacts import (
    Artifact,
    CompanionFile,
    DerivedIndex,
    Incoming,
    IndexedMember,
    derive_index,
    hash_file,
)

_TAGS = "-cp312-cp312-manylinux_2_28_x86_64.whl"
_AXES = {"system": "linux", "architecture": "x86_64", "python": "3.12"}
WHEEL = f"demo-1.0{_TAGS}"


def make_artifact(
    folder: Path,
    content: bytes = b"the bytes",
    name: str = WHEEL,
    companions: Mapping[str, bytes] | None = None,
    **said: Any,
) -> tuple[Artifact, Incoming]:
    """A file of that content, and what is said of it."""
    path = folder / name
    path.write_bytes(content)
    file = hash_file(path)
    beside = {}
    for below, each in (companions or {}).items():
        (folder / below).parent.mkdir(exist_ok=True)
        (folder / below).write_bytes(each)
        beside[below] = hash_file(folder / below)
    listed = tuple(
        CompanionFile(path=below, sha256=each.sha256, size=each.size)
        for below, each in beside.items()
    )
    row: dict[str, Any] = {"kind": "wheel", "project": "demo", "version": "1.0"}
    row = {**row, **(_AXES if name.endswith(_TAGS) else {}), **said}
    artifact = Artifact(
        sha256=file.sha256, file_name=name, size=file.size, companions=listed, **row
    )
    return artifact, Incoming(file=file, companions=beside)


def index_members(members: Iterable[tuple[Artifact, str | None]], base: str = "") -> DerivedIndex:
    """The index of the channel release; each member with why it is withdrawn, if it is."""
    listed = [
        IndexedMember(
            name=f"{each.folder}/{each.file_name}",
            artifact=each,
            withdrawn=reason,
        )
        for each, reason in members
    ]
    return derive_index("release", listed, base)
