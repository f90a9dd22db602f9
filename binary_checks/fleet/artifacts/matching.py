"""Select artifacts by the fields of their records: one language for all commands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from binary_checks.documents.json_schema import DIALECT
from binary_checks.documents.json_values import dump, dump_rows
from binary_checks.errors import ProfileError
from binary_checks.fleet.artifacts.artifact import (
    CHOICES,
    FILE_AXES,
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
from binary_checks.profile import read_condition, reject_unknown
from binary_checks.safe_text import cut, one_line

_DIGITS = ("commit", "sha256")
"""Fields that a condition may abbreviate."""
_AXES = ("project", "kind", *FILE_AXES, "version", "subdir", "branch", "commit", "pull_request")
FIELDS = (*_AXES, "sha256", "file_name")
"""The fields that artifacts are selected by, in the order in which they are shown."""
_HEX = re.compile("[0-9a-f]{7,64}")
_PYTHON = re.compile(r"(?:3\.\d{1,2})t?")
_NONE = "none"
"""The glob for a field without a value, which messages show in this way, too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """The conditions for artifacts that a user states; without any, all artifacts match."""

    globs: tuple[tuple[str, str], ...] = ()  # (field, glob)
    own: bool = False  # whether a value that a file merely supports does not meet a condition

    def unmet(self, artifact: Artifact) -> list[str]:
        """Return the conditions that an artifact does not meet: ["python 3.11 and not 3.12"]."""
        return [
            f"{name} {_show(artifact, name)} and not {glob}"
            for name, glob in self.globs
            if not _meets(artifact, name, glob)
            or (
                (self.own and name in FILE_AXES and glob != _NONE)
                and not is_itself(artifact, name, glob)
            )
        ]


def read_selection(where: Iterable[str], *, own: bool = False) -> Selection:
    """Return a user's conditions, such as ``variant=cu* linked=static branch=main``.

    With ``own``, for what is deleted or withdrawn, ``python=3.12`` does not select a wheel that
    works there, too. Raises ProfileError if no artifact could meet them.
    """
    globs: list[tuple[str, str]] = []
    for text in where:
        globs += read_condition(text, "--where", dict.fromkeys(FIELDS, str)).globs
    globs = [(name, glob.lower() if name in _DIGITS else glob) for name, glob in globs]
    for name, glob in globs:
        if name in _DIGITS and glob != _NONE and not _HEX.fullmatch(glob):
            raise ProfileError(f"--where: {name}={glob:.80}: not 7 to 64 hexadecimal digits")
        known = dict.fromkeys((*CHOICES.get(name, (glob,)), _NONE))
        if not any(fnmatchcase(each, glob) for each in known):
            reject_unknown([glob], known, "--where", name)
    return Selection(globs=tuple(globs), own=own)


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundArtifact:
    """An artifact, and the channels that contain it."""

    artifact: Artifact
    channels: tuple[str, ...] = ()
    verdict: str = ""  # untested, failing, passed; "" if not requested


def list_found(
    store: Store, channels: Sequence[str] = (), broken: list[str] | None = None
) -> list[FoundArtifact]:
    """Return all stored artifacts, or those in one of the channels, with their channels.

    An invalid document adds a line to ``broken``; without ``broken`` it raises RecordError.
    """
    having: dict[str, list[str]] = {}
    for channel in dict.fromkeys(channels) or ("",):
        for member in list_members(store, channel, broken):
            having.setdefault(member.sha256, []).append(member.channel)
    digests = list(having) if channels else None
    return [
        FoundArtifact(artifact=each, channels=tuple(having.get(each.sha256, ())))
        for each in list_artifacts(store, digests, broken)
    ]


def choose(found: Iterable[FoundArtifact], selection: Selection) -> list[FoundArtifact]:
    """Return the artifacts that match, sorted by project and version."""
    return sorted((each for each in found if not selection.unmet(each.artifact)), key=_order)


def choose_members(
    store: Store,
    channel: str,
    names: Sequence[str],
    selection: Selection,
    broken: list[str] | None = None,
) -> list[Artifact]:
    """Return the members of a channel that match, and that one of the names means, if there is any.

    A name is a project, a file name, a glob, or the path of a file of this host. An invalid
    document adds a line to ``broken``; without ``broken`` it raises RecordError. Raises
    ProfileError if no member matches, or if a name means none.
    """
    members = list_members(store, channel, broken)
    if names:
        means = [_find_named(members, name, channel) for name in names]
        members = [member for member in members if any(member in each for each in means)]
    artifacts = list_artifacts(store, [each.sha256 for each in members], broken)
    chosen = [each for each in artifacts if not selection.unmet(each)]
    if not chosen:
        raise ProfileError(f"the channel {channel} has no file that matches")
    return sorted(chosen, key=lambda each: (each.project, each.file_name, each.sha256))


def _find_named(members: Iterable[ChannelMember], name: str, channel: str) -> list[ChannelMember]:
    """Return the members that a name means: a project, file name, glob or file of this host."""
    path, shown = Path(name), cut(one_line(name), 120)
    bare = re.split(r"[/\\]", name)[-1]
    found = [
        each
        for each in members
        if fnmatchcase(each.file_name, bare) or _is_project(each.project, bare)
    ]
    if not found:
        raise ProfileError(f"{shown}: the channel {channel} has no such project or file")
    if bare != name and path.is_file():
        digest = hash_file(path).sha256
        found = [each for each in found if each.sha256 == digest]
        if not found:
            raise ProfileError(
                f"{shown}: the channel {channel} has no file with its SHA-256, {digest}"
            )
    return found


def _is_project(project: str, glob: str) -> bool:
    return fnmatchcase(project, glob) or canonicalize_name(project) == canonicalize_name(glob)


def keep_latest(found: Iterable[FoundArtifact]) -> list[FoundArtifact]:
    """Return the newest version of each configuration; if versions are equal, the last push."""
    oldest_first = sorted(
        found, key=lambda each: (_rank(each.artifact.version), each.artifact.pushed)
    )
    newest = {each.artifact.configuration: each for each in oldest_first}
    return sorted(newest.values(), key=_order)


def tell_apart(found: Sequence[FoundArtifact]) -> tuple[list[str], list[str]]:
    """Return the fields in which the artifacts differ, and a line for each with its conditions."""
    artifacts = [each.artifact for each in found]
    names = [name for name in _AXES if len({getattr(each, name) for each in artifacts}) > 1]
    lines = []
    for each in artifacts:
        conditions = (f"{name}={_show(each, name)}" for name in (*names, "sha256"))
        lines.append(f"{each.file_name}: {' '.join(conditions)}")
    return names, lines


def format_nearest(found: Sequence[FoundArtifact], selection: Selection) -> str:
    """Return the artifact that comes closest to the request, and how it differs, as text."""
    if not found:
        return "there are no artifacts"
    nearest = min(found, key=lambda each: (len(selection.unmet(each.artifact)), _order(each)))
    wrong = ", ".join(selection.unmet(nearest.artifact))
    return f"the nearest is {nearest.artifact.file_name}: {wrong}"


def _meets(artifact: Artifact, name: str, glob: str) -> bool:
    value: str = getattr(artifact, name)
    if glob == _NONE:
        return not value
    if name in _DIGITS:
        return value.startswith(glob)
    if name == "project":
        return _is_project(value, glob)
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
    wanted = {**cell.axes, "system": libc_of(cell.system)}
    artifact = replace(artifact, requires_python="")  # which may leave out a part of a version
    return all(
        not value or not getattr(artifact, name) or _meets(artifact, name, value)
        for name, value in wanted.items()
        if name in FIELDS
    )


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


def _show(artifact: Artifact, name: str) -> str:
    value: str = getattr(artifact, name)
    return (value[:12] if name in _DIGITS else value) or _NONE


def _rank(version: str) -> tuple[bool, Version, tuple[str, ...]]:
    """Return a sort key for versions; versions outside PEP 440 come first, by their numbers."""
    try:
        return True, Version(version), ()
    except ValueError:
        parts = re.findall(r"\d+|[a-z]+", version.lower())
        return False, Version("0"), tuple(each.zfill(20) for each in parts)


def _order(each: FoundArtifact) -> tuple[object, ...]:
    artifact = each.artifact
    return (artifact.project, _rank(artifact.version), artifact.file_name, artifact.sha256)


def tabulate_found(found: Sequence[FoundArtifact]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a table; the first is the header."""
    names = ("project", "version", "kind", "branch", *FILE_AXES)
    shown = [name for name in names if any(getattr(each.artifact, name) for each in found)]
    verdicts = ["verdict"] if any(each.verdict for each in found) else []
    yield (*shown, *verdicts, "channels", "commit", "file")
    for each in found:
        artifact = each.artifact
        values = (getattr(artifact, name) or "-" for name in shown)
        channels = ", ".join(each.channels) or "-"
        label = [each.verdict] if verdicts else []
        yield (*values, *label, channels, artifact.commit[:12] or "-", artifact.file_name)


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
