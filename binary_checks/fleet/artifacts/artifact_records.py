"""What the repository says of one file, as a document: canonical bytes, read back strictly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from binary_checks.documents.decoding import OddityError, decode_fields
from binary_checks.documents.encoding import encode_fields
from binary_checks.documents.json_schema import describe_document
from binary_checks.errors import RecordError
from binary_checks.fleet.artifacts.artifact import (
    ARTIFACT_SCHEMA,
    COMPANION_FOLDERS,
    KINDS,
    RESERVED_NAMES,
    Artifact,
)
from binary_checks.fleet.records import demand_digest, open_document, write_document
from binary_checks.fleet.store.safe_names import is_safe_part

_RECORD = frozenset({"record"})


def write_artifact(artifact: Artifact) -> bytes:
    """The document of an artifact: of equal ones the same bytes."""
    row = encode_fields(artifact, _RECORD)
    record = {"record": dict(artifact.record)} if artifact.record else {}
    return write_document({"schema": ARTIFACT_SCHEMA, **row, **record})


def read_artifact(content: bytes, named: str) -> Artifact:
    """Read the document of an artifact, which messages name so.

    Raises RecordError, one line, for one that is cut, corrupt, of another schema, or has a name
    that would lead elsewhere.
    """
    try:
        row = open_document(content, ARTIFACT_SCHEMA)
        record = row.pop("record", {})
        if not isinstance(record, Mapping):
            raise OddityError("record: not an object")
        artifact = Artifact(**decode_fields(Artifact, row, _RECORD))
        demand_sound(artifact)
    except OddityError as error:
        raise RecordError(f"{named}: {error}") from None
    return replace(artifact, record=record)


def describe_artifacts() -> dict[str, Any]:
    """The JSON Schema of an artifact; its record is what conda's index.json says."""
    described = describe_document(ARTIFACT_SCHEMA, Artifact, _RECORD)
    properties = {**described["properties"], "record": {"type": "object", "default": {}}}
    return {**described, "properties": dict(sorted(properties.items()))}


def demand_sound(artifact: Artifact) -> None:
    """Raise OddityError for names that a store cannot have, and numbers that no file has."""
    demand_digest("sha256", artifact.sha256)
    if artifact.metadata_sha256:  # only wheels have METADATA
        demand_digest("metadata_sha256", artifact.metadata_sha256)
    if artifact.kind not in KINDS:
        raise OddityError(f"kind: {artifact.kind!r:.40} is not one of {', '.join(KINDS)}")
    if artifact.size < 0:
        raise OddityError("size: less than 0")
    demand_part("file_name", artifact.file_name)
    if artifact.file_name.lower() in RESERVED_NAMES:  # file systems that know no case are many
        raise OddityError(f"file_name: {artifact.file_name} is a name that the store reserves")
    demand_part("project", artifact.project)
    if artifact.subdir:
        demand_part("subdir", artifact.subdir)
    _demand_companions(artifact)


def demand_part(name: str, value: str) -> None:
    """Raise OddityError for what cannot stand between two "/" of an object's name."""
    if not is_safe_part(value):
        raise OddityError(
            f"{name}: {value!r:.120} names no object of a store: letters, digits and ._+=!@,~- "
            "alone may stand in it, at most 200"
        )


def _demand_companions(artifact: Artifact) -> None:
    seen = set[str]()
    for each in artifact.companions:
        demand_digest("companions", each.sha256)
        folder, slash, rest = each.path.partition("/")
        if each.size < 0 or not slash or folder not in COMPANION_FOLDERS:
            raise OddityError(
                f"companions: {each.path!r:.80} is neither a license nor a dependency"
            )
        demand_part("companions", rest)
        if each.path.lower() in seen:  # they end in one folder, of any system
            raise OddityError(f"companions: {each.path!r:.80} is listed twice")
        seen.add(each.path.lower())
