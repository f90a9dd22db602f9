"""What the repository says of one file that it keeps: its ``.meta.json``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from binary_checks.documents.json_schema import describe_document
from binary_checks.documents.json_values import OddityError, decode_fields, encode_fields
from binary_checks.errors import RecordError
from binary_checks.fleet.night import AXES
from binary_checks.fleet.store.store_names import is_safe_part
from binary_checks.fleet.stored_nights import demand_digest, open_document, write_document

ARTIFACT_SCHEMA = "binary-checks/artifact/1"
KINDS = ("wheel", "conda", "libtorch", "library")
FILE_AXES = tuple(axis for axis in AXES if axis not in ("project", "kind", "source"))
"""Those of cells that the bytes of a file may say."""
COMPANION_FOLDERS = ("licenses", "dependencies")
RESERVED_NAMES = frozenset(
    {"artifact.json", "with", "verdicts", "promotions", "expired", *COMPANION_FOLDERS}
)
"""What else lies beside a file in the store, or where it is pulled."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkedAs:
    """How a file is linked with one library, and by what that is known."""

    library: str  # openblas, cudart
    how: str  # static, dynamic
    evidence: str
    version: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CompanionFile:
    """A file that is kept and pulled with an artifact: a license, or a library that it needs."""

    path: str  # below the folder it is pulled into: licenses/LICENSE, dependencies/libfoo.so.1
    sha256: str
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Artifact:
    """One file, by its bytes; what is not known, or does not apply, is empty.

    The axes are those of cells, in the same words. The same bytes always have the same document
    but for ``pushed``; whoever pushes them first says it.
    """

    sha256: str
    file_name: str
    size: int  # bytes
    kind: str  # wheel, conda, libtorch, library
    project: str  # normalised as PEP 503 says, of conda packages and libraries as they are named
    version: str = ""
    commit: str = ""  # that it was built from, in full
    system: str = ""
    architecture: str = ""
    python: str = ""
    variant: str = ""
    cxx_abi: str = ""
    libtorch: str = ""
    evidence: Mapping[str, str] = field(default_factory=dict)  # by axis: what says so
    linked: tuple[LinkedAs, ...] = ()
    licenses: tuple[str, ...] = ()  # expressions and names of license files that it has itself
    companions: tuple[CompanionFile, ...] = ()
    requires_python: str = ""  # of METADATA
    metadata_sha256: str = ""  # of METADATA, which is kept beside it (PEP 658)
    subdir: str = ""  # of a conda package
    record: Mapping[str, object] = field(default_factory=dict)  # of a conda package: index.json
    pushed: str = ""  # RFC 3339, UTC


# What the repository says of one file, as a document: canonical bytes, read back strictly.

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


# What is known of an artifact as properties, one ``key=value`` a line, as Java and others read.

_IN_KEYS = re.compile(r"[=:#! ]")


def write_properties(artifact: Artifact) -> bytes:
    """The text of ``<name>.meta``: of equal artifacts the same bytes, and no time in it."""
    rows = sorted(_list_properties(artifact).items())
    lines = (f"{_escape(key, key=True)}={_escape(value)}\n" for key, value in rows)
    return "".join(lines).encode("ascii")


def _list_properties(artifact: Artifact) -> Mapping[str, str]:
    plain = ("file_name", "sha256", "kind", "project", "version", "commit", *FILE_AXES)
    rows = {name: getattr(artifact, name) for name in (*plain, "requires_python", "subdir")}
    rows["size"] = str(artifact.size)
    rows["licenses"] = "; ".join(artifact.licenses)
    rows.update((f"evidence.{axis}", text) for axis, text in artifact.evidence.items())
    rows.update(_list_linked(artifact))
    rows.update((each.path, each.sha256) for each in artifact.companions)
    return {name: value for name, value in rows.items() if value}


def _list_linked(artifact: Artifact) -> Iterator[tuple[str, str]]:
    """A library may be linked in both ways, in different objects of a package."""
    told: dict[str, list[str]] = {}
    for each in artifact.linked:
        version = f" {each.version}" if each.version else ""
        told.setdefault(each.library, []).append(f"{each.how}{version} ({each.evidence})")
    yield from ((f"linked.{library}", "; ".join(ways)) for library, ways in told.items())


def _escape(text: str, *, key: bool = False) -> str:
    """As java.util.Properties reads it: backslashes, line ends and whatever is not ASCII."""
    text = text.replace("\\", "\\\\")
    if key:
        text = _IN_KEYS.sub(lambda found: f"\\{found[0]}", text)
    elif text[:1] == " ":
        text = f"\\{text}"
    return "".join(each if " " <= each <= "~" else _escape_unit(each) for each in text)


def _escape_unit(char: str) -> str:
    """A character in UTF-16, of which those beyond the first plane take two units."""
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
