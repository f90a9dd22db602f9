"""Artifacts: the repository's record of one file, and its document ``artifact.json``."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from binary_checks.documents.json_schema import describe_document
from binary_checks.documents.json_values import DocumentError, decode_fields, dump, encode_fields
from binary_checks.errors import BinaryChecksError, RecordError
from binary_checks.fleet.night import AXES
from binary_checks.fleet.store import file_prefix, is_safe_part
from binary_checks.fleet.stored_nights import open_document, require_digest, write_document

ARTIFACT_SCHEMA = "binary-checks/artifact/2"
KINDS = ("wheel", "conda", "libtorch", "library")
LIBRARY_AXES: Mapping[str, str] = {"blas": "BLAS", "openmp": "OpenMP"}
"""Axis that only files have -> the role of the linked libraries that are its values."""
LINKED = "linked"
"""The axis that says how a file is linked with the libraries that it is built with."""
FILE_AXES = (
    *(axis for axis in AXES if axis not in ("project", "kind", "source")),
    *LIBRARY_AXES,
    LINKED,
)
"""All axes of a file: those of cells, as far as a file has them, and its own."""
CHOICES: Mapping[str, tuple[str, ...]] = {"kind": KINDS, LINKED: ("dynamic", "static")}
"""Field -> all its values, for fields that have only a few."""
COMPANION_FOLDERS = ("licenses", "dependencies")
PULL_REQUEST = re.compile(r"[1-9][0-9]{0,9}")
"""Matches the number of a pull or merge request."""
BRANCH = re.compile(r"(?![-/.])(?!.*(?:\.\.|//|@\{|[/.]$))[^\s~^:?*\[\\]{1,200}")
"""Matches the name of a branch, by the rules of git."""
RESERVED_NAMES = frozenset({"with", *COMPANION_FOLDERS})
"""Names that a stored or pulled file cannot have, because the store uses them itself."""


class ArtifactRefusedError(BinaryChecksError):
    """An artifact contradicts itself or the store; the text names both contradicting statements."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkedAs:
    """The way in which a file is linked with one library, and the evidence."""

    library: str  # openblas, cudart
    how: str  # static, dynamic, unknown
    evidence: str
    version: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CompanionFile:
    """A file that is kept and pulled with an artifact: a license, or a library that it needs."""

    path: str  # in the folder where it is pulled: licenses/LICENSE, dependencies/libfoo.so.1
    sha256: str
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Artifact:
    """One file, identified by its bytes; values that are unknown or do not apply are empty.

    The axes have the same names and values as those of cells. The same bytes always have the same
    document, except for ``pushed``, which the first push sets.
    """

    sha256: str
    file_name: str
    size: int  # bytes
    kind: str  # wheel, conda, libtorch, library
    project: str  # wheels: normalised (PEP 503); other kinds: unchanged from the package
    version: str = ""
    commit: str = ""  # full hash of the commit that it was built from
    branch: str = ""  # of that commit; "" for a pull request, unless the user states it
    pull_request: str = ""  # number of the pull or merge request that it was built for
    system: str = ""
    architecture: str = ""
    python: str = ""
    variant: str = ""
    cxx_abi: str = ""
    libtorch: str = ""
    blas: str = ""  # mkl, openblas, accelerate, blis, system
    openmp: str = ""  # libgomp, intel, llvm, microsoft
    linked: str = ""  # static, dynamic; "" if some libraries are static, and others dynamic
    evidence: Mapping[str, str] = field(default_factory=dict)  # axis -> the source of its value
    libraries: tuple[LinkedAs, ...] = ()
    companions: tuple[CompanionFile, ...] = ()
    requires_python: str = ""  # from METADATA
    metadata_sha256: str = ""  # of METADATA, which is stored next to the file (PEP 658)
    subdir: str = ""  # conda packages only
    record: Mapping[str, object] = field(default_factory=dict)  # conda packages only: index.json
    pushed: str = ""  # RFC 3339, UTC

    @property
    def folder(self) -> str:
        """Its folder in a channel, where one file name means one file.

        The name of a wheel states its variant, and so does that of a conda package with its subdir.
        All other files of one name are in a folder for each variant.
        """
        inner = self.subdir if self.kind in _NAMED else _name_variant(self)
        return f"{self.project}/{inner}" if inner else self.project

    @property
    def label(self) -> str:
        """Its file name, with its variant if the name does not state it."""
        if self.kind in _NAMED:
            return self.file_name
        variant = _name_variant(self).partition("~")[0]
        return f"{self.file_name} ({variant})" if variant != _UNKNOWN else self.file_name

    @property
    def configuration(self) -> tuple[str, ...]:
        """The values that its builds of other versions share."""
        names = ("project", "kind", "subdir", "branch", *FILE_AXES)
        return tuple(getattr(self, name) for name in names)

    @property
    def file_prefix(self) -> str:
        """The prefix of the names under which a store has its file and those that belong to it."""
        return file_prefix("/".join(filter(None, (self.folder, self.commit[:12]))), self.sha256)

    @property
    def object_name(self) -> str:
        """The name of its file in a store."""
        return f"{self.file_prefix}{self.file_name}"

    @property
    def metadata_name(self) -> str:
        """The name of a wheel's METADATA, which installers request first (PEP 658)."""
        return f"{self.object_name}.metadata"

    def name_companion(self, companion: CompanionFile) -> str:
        """Return the name of a license or a dependency, with the beginning of its SHA-256.

        Pushes of the same artifact with different companions therefore do not interfere.
        """
        base = companion.path.rpartition("/")[2]
        return f"{self.file_prefix}with/{companion.sha256[:16]}/{base}"


_NAMED = ("wheel", "conda")
"""Kinds whose file names state the variant, those of conda packages with their subdir."""
_VARIANT = ("version", "branch", "pull_request", *FILE_AXES)
"""The fields in which files of one name and project differ; the commit is not one of them."""
_UNKNOWN = "unknown"
_HEX = re.compile("[0-9a-f]*")
_UNSHOWN = re.compile(r"[^A-Za-z0-9.+-]+")


def _name_variant(artifact: Artifact) -> str:
    """Return the name of a folder that people can read, and that differs for each variant."""
    values = [str(getattr(artifact, name)) for name in _VARIANT]
    shown = ",".join(_UNSHOWN.sub("_", each) for each in values if each).lstrip(",.+-")
    digest = hashlib.sha256(dump(values).encode()).hexdigest()
    return f"{shown[:100] or _UNKNOWN}~{digest[:12]}"


# The document of an artifact: canonical bytes, read back strictly.

_RECORD = frozenset({"record"})


def write_artifact(artifact: Artifact) -> bytes:
    """Return the artifact's document; equal artifacts give the same bytes."""
    row = encode_fields(artifact, _RECORD)
    record = {"record": dict(artifact.record)} if artifact.record else {}
    return write_document({"schema": ARTIFACT_SCHEMA, **row, **record})


def hash_record(artifact: Artifact) -> str:
    """Return the SHA-256 of the artifact's document, which verdicts on the file state."""
    return hashlib.sha256(write_artifact(artifact)).hexdigest()


def read_artifact(content: bytes, named: str) -> Artifact:
    """Read an artifact's document; ``named`` is its name in messages.

    Raises RecordError with a message of one line if the document is truncated, corrupt, of another
    schema, or contains a name that would lead out of its folder.
    """
    try:
        row = open_document(content, ARTIFACT_SCHEMA)
        record = row.pop("record", {})
        if not isinstance(record, Mapping):
            raise DocumentError("record: not an object")
        artifact = Artifact(**decode_fields(Artifact, row, _RECORD))
        require_sound(artifact)
    except DocumentError as error:
        raise RecordError(f"{named}: {error}") from None
    return replace(artifact, record=record)


def describe_artifacts() -> dict[str, Any]:
    """Return the JSON Schema of an artifact; its ``record`` is conda's index.json."""
    described = describe_document(ARTIFACT_SCHEMA, Artifact, _RECORD)
    properties = {**described["properties"], "record": {"type": "object", "default": {}}}
    return {**described, "properties": dict(sorted(properties.items()))}


def require_sound(artifact: Artifact) -> None:
    """Raise DocumentError for names that a store cannot have and for impossible sizes."""
    require_digest("sha256", artifact.sha256)
    if artifact.metadata_sha256:  # only wheels have METADATA
        require_digest("metadata_sha256", artifact.metadata_sha256)
    for name, values in CHOICES.items():
        value = getattr(artifact, name)
        if value not in values and (value or name == "kind"):
            raise DocumentError(f"{name}: {value!r:.40} is not one of {', '.join(values)}")
    if artifact.size < 0:
        raise DocumentError("size: less than 0")
    if artifact.pull_request and not PULL_REQUEST.fullmatch(artifact.pull_request):
        raise DocumentError(f"pull_request: {artifact.pull_request!r:.40} is not a number")
    if artifact.branch and not is_branch(artifact.branch):
        raise DocumentError(f"branch: {artifact.branch!r:.40} is not the name of a branch")
    require_part("file_name", artifact.file_name)
    if artifact.file_name.lower() in RESERVED_NAMES:  # many file systems ignore case
        raise DocumentError(f"file_name: {artifact.file_name} is a name that the store uses itself")
    require_part("project", artifact.project)
    if artifact.subdir:
        require_part("subdir", artifact.subdir)
    if not _HEX.fullmatch(artifact.commit):
        raise DocumentError(f"commit: {artifact.commit!r:.80} is not a hash")
    for part in artifact.folder.split("/"):
        require_part("version", part)
    _require_companions(artifact)


def is_branch(text: str) -> bool:
    """Return whether git allows a branch of that name, and a person can read it."""
    return BRANCH.fullmatch(text) is not None and text.isprintable()


def require_part(name: str, value: str) -> None:
    """Raise DocumentError if the value cannot be a part of an object's name."""
    if not is_safe_part(value):
        raise DocumentError(
            f"{name}: {value!r:.120} cannot name an object of a store: only letters, digits and "
            "._+=!@,~- are allowed, at most 200 characters"
        )


def _require_companions(artifact: Artifact) -> None:
    seen = set[str]()
    for each in artifact.companions:
        require_digest("companions", each.sha256)
        folder, slash, rest = each.path.partition("/")
        if each.size < 0 or not slash or folder not in COMPANION_FOLDERS:
            raise DocumentError(
                f"companions: {each.path!r:.80} is neither a license nor a dependency"
            )
        require_part("companions", rest)
        if each.path.lower() in seen:  # all are pulled into one folder, on any system
            raise DocumentError(f"companions: {each.path!r:.80} is listed twice")
        seen.add(each.path.lower())
