"""Select artifacts: by the axes of cells, by commit, by bytes and by channel."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from binary_checks.documents.json_schema import DIALECT
from binary_checks.documents.json_values import dump, dump_rows
from binary_checks.errors import ProfileError
from binary_checks.fleet.artifacts.artifact import (
    CELL_AXES,
    FILE_AXES,
    LIBRARY_AXES,
    LINKED,
    Artifact,
    describe_artifacts,
    write_artifact,
)
from binary_checks.fleet.artifacts.axis_claims import ANY, libc_of
from binary_checks.fleet.artifacts.channels import ChannelMember, list_members
from binary_checks.fleet.artifacts.kept_artifacts import hash_file, list_artifacts
from binary_checks.fleet.night import Cell
from binary_checks.fleet.store import Store
from binary_checks.knowledge.configurations import same_version
from binary_checks.model import LABELS, agree
from binary_checks.profile import read_condition
from binary_checks.safe_text import cut, one_line

FIELDS = ("project", "kind", *FILE_AXES, "version", "subdir")
"""The fields that artifacts are selected by, in the order in which they are shown."""
_HEX = re.compile("[0-9a-f]{7,64}")
_PYTHON = re.compile(r"(?:3\.\d{1,2})t?")
_FEW = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class ArtifactWish:
    """The conditions for artifacts that a user asks for; without any, all artifacts match."""

    globs: tuple[tuple[str, str], ...] = ()  # (field, glob)
    commit: str = ""  # its first digits, at least seven
    sha256: str = ""  # its first digits, at least seven

    def unmet(self, artifact: Artifact) -> list[str]:
        """Return the conditions that an artifact does not meet: ["python 3.11 and not 3.12"]."""
        wrong = [
            f"{name} {_shown(artifact, name)} and not {glob}"
            for name, glob in self.globs
            if not _meets(artifact, name, glob)
        ]
        for name in ("commit", "sha256"):
            begin = getattr(self, name)
            if not getattr(artifact, name).startswith(begin):
                wrong.append(f"{name} {getattr(artifact, name)[:12]} and not {begin[:12]}")
        return wrong


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundArtifact:
    """An artifact, and the channels that contain it."""

    artifact: Artifact
    channels: tuple[str, ...] = ()
    verdict: str = ""  # untested, failing, passed; "" if not requested


def read_wish(
    where: Sequence[str],
    *,
    project: str = "",
    version: str = "",
    commit: str = "",
    sha256: str = "",
) -> ArtifactWish:
    """Return a user's conditions. Raises ProfileError if no artifact could meet them."""
    globs = [("project", project)] if project else []
    globs += [("version", version)] if version else []
    for text in where:
        globs += read_condition(text, "--where", dict.fromkeys(FIELDS, str)).globs
    for name, digits in (("--commit", commit), ("--sha256", sha256)):
        if digits and not _HEX.fullmatch(digits):
            raise ProfileError(f"{name}: {digits!r:.80}: not 7 to 64 hexadecimal digits")
    return ArtifactWish(globs=tuple(globs), commit=commit, sha256=sha256)


def list_found(
    store: Store, channels: Sequence[str] = (), broken: list[str] | None = None
) -> list[FoundArtifact]:
    """Return all stored artifacts, or those in one of the channels, with their channels.

    An invalid document adds a line to ``broken``; without ``broken`` it raises RecordError.
    """
    having: dict[str, list[str]] = {}
    for member in list_members(store):
        if not channels or member.channel in channels:
            having.setdefault(member.sha256, []).append(member.channel)
    digests = list(having) if channels else None
    return [
        FoundArtifact(artifact=each, channels=tuple(having.get(each.sha256, ())))
        for each in list_artifacts(store, digests, broken)
    ]


def choose(found: Iterable[FoundArtifact], wish: ArtifactWish) -> list[FoundArtifact]:
    """Return the artifacts that match, sorted by project and version."""
    chosen = [each for each in found if not wish.unmet(each.artifact)]
    return sorted(chosen, key=_order)


def keep_latest(found: Iterable[FoundArtifact]) -> list[FoundArtifact]:
    """Return the newest version of each configuration; if versions are equal, the last push.

    Builds of that version that link other libraries (MKL, OpenBLAS) are kept, too.
    """
    newest: dict[tuple[str, ...], dict[tuple[str, ...], FoundArtifact]] = {}
    for each in sorted(found, key=lambda each: _age(each.artifact)):
        builds = newest.setdefault(_configuration(each.artifact), {})
        rank = _rank(each.artifact.version)
        if any(_rank(other.artifact.version) != rank for other in builds.values()):
            builds.clear()  # they are of an older version
        builds[tuple(getattr(each.artifact, axis) for axis in (*LIBRARY_AXES, LINKED))] = each
    return sorted((each for builds in newest.values() for each in builds.values()), key=_order)


def format_differences(found: Sequence[FoundArtifact]) -> str:
    """Return the fields in which the artifacts differ: "python (3.11, 3.12), commit (…)"."""
    texts: list[str] = []
    for name in (*FIELDS, "commit", "file_name"):
        values = list(dict.fromkeys(getattr(each.artifact, name)[:40] for each in found))
        if len(values) > 1 and (name != "file_name" or not texts):
            more = ", …" if len(values) > _FEW else ""
            texts.append(f"{name} ({', '.join(each or 'none' for each in values[:_FEW])}{more})")
    return ", ".join(texts)


def format_nearest(found: Sequence[FoundArtifact], wish: ArtifactWish) -> str:
    """Return the artifact that comes closest to the request, and how it differs, as text."""
    if not found:
        return "there are no artifacts"
    wrong, nearest = min(
        ((wish.unmet(each.artifact), each) for each in found),
        key=lambda pair: (len(pair[0]), _order(pair[1])),
    )
    return f"the nearest is {nearest.artifact.file_name}: {', '.join(wrong)}"


def _meets(artifact: Artifact, name: str, glob: str) -> bool:
    value: str = getattr(artifact, name)
    if name == "project":
        return fnmatchcase(value, glob) or canonicalize_name(value) == canonicalize_name(glob)
    if name == "version":
        return fnmatchcase(value, glob) or same_version(value, glob)
    parts = value.split(", ")
    if name == "python" and _PYTHON.fullmatch(glob):
        return any(_runs(artifact, each, glob) for each in parts)
    if name == "system":  # "linux" matches every manylinux, too
        parts += [libc_of(each) for each in parts]
    return any(fnmatchcase(each, glob) for each in parts) or (ANY in parts and name in FILE_AXES)


def is_itself(artifact: Artifact, name: str, glob: str) -> bool:
    """Return whether the file's own value matches the glob.

    Values that the file merely supports do not count.
    """
    value: str = getattr(artifact, name)
    return fnmatchcase(value, glob) or (name == "system" and fnmatchcase(libc_of(value), glob))


def stands_for(cell: Cell, artifact: Artifact) -> bool:
    """Return whether an artifact may be the file of a cell: no axis that both have differs."""
    if cell.kind != artifact.kind or canonicalize_name(cell.project) != canonicalize_name(
        artifact.project
    ):
        return False
    return all(_agree(axis, getattr(cell, axis), getattr(artifact, axis)) for axis in CELL_AXES)


def _agree(axis: str, given: str, found: str) -> bool:
    """Return whether the axis values agree; a value that is not stated agrees with any."""
    if axis == "system":
        given, found = libc_of(given), libc_of(found)
    return not given or found in ("", ANY) or found.endswith("+") or given in found.split(", ")


def _runs(artifact: Artifact, value: str, python: str) -> bool:
    """Return whether a file built for ``value`` runs on a Python version.

    It does if ``value`` is this version, any version, or an earlier version "and later" (3.9+).
    """
    if value == python:
        return True
    open_ended = value == ANY or (value.endswith("+") and agree("python", python, value))
    if not open_ended:
        return False
    try:
        asked = SpecifierSet(artifact.requires_python)
    except InvalidSpecifier:
        return True
    return asked.contains(f"{python.removesuffix('t')}.99")


def _shown(artifact: Artifact, name: str) -> str:
    return getattr(artifact, name) or "none"


def _configuration(artifact: Artifact) -> tuple[str, ...]:
    axes = (getattr(artifact, name) for name in CELL_AXES)
    return (artifact.project, artifact.kind, artifact.subdir, *axes)


def _age(artifact: Artifact) -> tuple[tuple[int, Version, tuple[str, ...]], str]:
    return _rank(artifact.version), artifact.pushed


def _rank(version: str) -> tuple[int, Version, tuple[str, ...]]:
    """Return a sort key for versions; versions outside PEP 440 come first, by their numbers."""
    try:
        return 1, Version(version), ()
    except ValueError:
        parts = islice(re.findall(r"\d+|[a-z]+", version.lower()), 20)
        return 0, Version("0"), tuple(each.zfill(20) for each in parts)


def _order(each: FoundArtifact) -> tuple[object, ...]:
    artifact = each.artifact
    return (artifact.project, _rank(artifact.version), artifact.file_name, artifact.sha256)


def tabulate_found(found: Sequence[FoundArtifact]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a table; the first is the header."""
    names = ("project", "version", "kind", *FILE_AXES)
    shown = [name for name in names if any(getattr(each.artifact, name) for each in found)]
    verdicts = ["verdict"] if any(each.verdict for each in found) else []
    yield (*shown, *verdicts, "channels", "commit", "file")
    for each in found:
        artifact = each.artifact
        values = (getattr(artifact, name) or "-" for name in shown)
        channels = ", ".join(each.channels) or "-"
        label = [each.verdict] if verdicts else []
        yield (*values, *label, channels, artifact.commit[:12] or "-", artifact.file_name)


# Selecting members of a channel by project, file name, glob, path, axes or digest.


@dataclass(frozen=True, kw_only=True, slots=True)
class MemberWish:
    """The conditions for members that a user asks for; without any, all members match."""

    names: Sequence[str] = ()  # projects, file names, globs, paths
    where: str = ""  # variant=cu130 python=3.12
    digests: Sequence[str] = ()  # SHA-256, or at least its first 12 digits


def choose_members(
    store: Store, channel: str, wish: MemberWish, broken: list[str] | None = None
) -> list[Artifact]:
    """Return the artifacts of the selected members, or of all members without a condition.

    Each name and digest must match at least one member. An invalid document adds a line to
    ``broken``; without ``broken`` it raises RecordError. Raises ProfileError with a message of one
    line.
    """
    members = found = list_members(store, channel, broken)
    if wish.names:
        found = _union([_match(members, name, channel) for name in wish.names])
    for digest in wish.digests:
        if not any(_is_named(each, [digest]) for each in members):
            raise ProfileError(f"--sha256 {_show(digest)}: {channel} has no such file")
    if wish.digests:
        found = [each for each in found if _is_named(each, wish.digests)]
    artifacts = [*list_artifacts(store, [each.sha256 for each in found], broken)]
    kinds = read_wish([wish.where] if wish.where else [])
    artifacts = [each for each in artifacts if not kinds.unmet(each)]
    if not artifacts:
        raise ProfileError(f"the channel {channel} has no file that matches")
    return sorted(artifacts, key=lambda each: (each.project, each.file_name))


def _match(members: Iterable[ChannelMember], name: str, channel: str) -> list[ChannelMember]:
    """Return the members that a name selects: a project, file name, glob or file on this host."""
    path = Path(name)
    bare = path.name if "/" in name or "\\" in name else name
    found = [
        each
        for each in members
        if fnmatchcase(each.file_name, bare)
        or fnmatchcase(each.project, bare)
        or canonicalize_name(each.project) == canonicalize_name(bare)
    ]
    if not found:
        raise ProfileError(f"{_show(name)}: the channel {channel} has no such project or file")
    if bare != name and path.is_file():
        digest = hash_file(path).sha256
        if digest not in {each.sha256 for each in found}:
            raise ProfileError(
                f"{_show(name)}: the channel {channel} has no file with its SHA-256, {digest}"
            )
    return found


def _union(groups: Iterable[Iterable[ChannelMember]]) -> list[ChannelMember]:
    return list({each.stored.name: each for group in groups for each in group}.values())


def _is_named(member: ChannelMember, digests: Iterable[str]) -> bool:
    return any(len(each) >= 12 and member.sha256.startswith(each) for each in digests)


def _show(text: str) -> str:
    return cut(one_line(text), 120)


def find_with_gpu(cells: Iterable[Cell], artifacts: Iterable[Artifact]) -> frozenset[str]:
    """Return the SHA-256 of files that may stand for a cell with a GPU stage."""
    wanted = [cell for cell in cells if cell.gpu]
    return frozenset(
        each.sha256 for each in artifacts if any(stands_for(cell, each) for cell in wanted)
    )


# The output of `artifact find --json`: artifacts as stored, with their channels.

FOUND_SCHEMA = "binary-checks/found-artifacts/2"


def write_found(found: Iterable[FoundArtifact]) -> str:
    """Return the document, one artifact a line."""
    rows = [
        {
            "channels": list(each.channels),
            "artifact": json.loads(write_artifact(each.artifact)),
            **({"verdict": each.verdict} if each.verdict else {}),
        }
        for each in found
    ]
    return f'{{"schema": {dump(FOUND_SCHEMA)}, "artifacts": [{"".join(dump_rows(rows))}]}}\n'


def describe_found() -> dict[str, Any]:
    """Return the JSON Schema of the document."""
    row = {
        "type": "object",
        "required": ["artifact", "channels"],
        "additionalProperties": False,
        "properties": {
            "artifact": describe_artifacts(),
            "channels": {"type": "array", "items": {"type": "string"}},
            "verdict": {"enum": [*LABELS]},  # only if requested
        },
    }
    return {
        "$schema": DIALECT,
        "$id": f"urn:{FOUND_SCHEMA.replace('/', ':')}",
        "title": FOUND_SCHEMA,
        "type": "object",
        "required": ["artifacts", "schema"],
        "additionalProperties": False,
        "properties": {
            "schema": {"const": FOUND_SCHEMA},
            "artifacts": {"type": "array", "items": row},
        },
    }
