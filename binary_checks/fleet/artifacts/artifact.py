"""What the repository says of one file that it keeps: its ``.meta.json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from binary_checks.fleet.cell import AXES

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
