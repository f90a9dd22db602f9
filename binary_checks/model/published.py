"""A published file before its download, and several published files together."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from packaging.tags import Tag

from binary_checks.model.packages import Package, Wheel

# The origin of a published package, and the statements about it at that origin.


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """Statements of an index, a channel or a server about one file; "" or None if not stated."""

    asked: str = ""  # written as the user named it: "numpy==2.4.6"
    kind: str  # "index", "url" or "channel"
    url: str = ""  # of the file, without credentials
    index: str = ""  # the URL of the index or the channel, without credentials
    sha256: str = ""  # stated by the index, hexadecimal
    size: int | None = None  # bytes, stated by the index (PEP 700)
    uploaded: str = ""  # time stated by the index (PEP 700): "2026-11-21T03:12:45.123Z"
    modified: str = ""  # the Last-Modified header of the answer
    requires_python: str | None = None  # stated by the index; None: not stated
    yanked: str | None = None  # the reason, maybe ""; None: not yanked (PEP 592)
    metadata_hash: str = ""  # hash of the METADATA that the index serves (PEP 658), "sha256=<hex>"
    # how METADATA was read before the download: "PEP 658" or "ranges"; "" if not
    metadata: str = ""
    attestation: str = ""  # "present, not verified" (PEP 740)
    serial: str = ""  # serial number of the index page, if any
    sha256_taken: str = ""  # SHA-256 of the downloaded file; "" before the download


@dataclass(frozen=True, kw_only=True, slots=True)
class Survey:
    """The base class of facts that are gathered without reading a whole package.

    A check whose first parameter is such a fact runs before all others, and downloads nothing.
    """

    noun: ClassVar[str]  # names in messages what is surveyed

    @property
    def shown(self) -> Package:
        """The package whose layout shortens the paths of findings."""
        return Package(path=Path())


@dataclass(frozen=True, kw_only=True, slots=True)
class Publication(Survey):
    """Facts about a file from its place of publication, and from its name."""

    noun: ClassVar[str] = "a file on an index"
    file_name: str
    name: str = ""  # from the file name, normalised for a wheel; "" if unknown
    version: str = ""
    tags: tuple[Tag, ...] = ()  # for a wheel
    provenance: Provenance
    metadata: tuple[tuple[str, str], ...] | None = None
    """The headers of the METADATA that the index serves next to the file (PEP 658)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedFile(Survey):
    """A published file read by ranges: directory, texts, and the first bytes of libraries."""

    noun: ClassVar[str] = "a file on an index"
    package: Package
    """Members have no hashes, except texts that were read. Of object files only the first bytes
    were read; fields that depend on further bytes have default values. A conda package has the
    contents of ``info/``.
    """
    requests: int = 0  # number of requests
    transferred: int = 0  # bytes
    began_anew: bool = False  # the file changed during reading, and was read again from the start

    @property
    def shown(self) -> Package:
        """The package that was read."""
        return self.package


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedWheel(PublishedFile):
    """A published wheel."""

    noun: ClassVar[str] = "a wheel on an index"
    package: Wheel


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleasePart:
    """Facts about one package of a release; they must be equal in all packages of the release."""

    file_name: str
    name: str = ""  # normalised
    version: str = ""
    requires: tuple[str, ...] = ()  # its Requires-Dist headers
    requires_python: str = ""  # its Requires-Python header
    classifiers: tuple[str, ...] = ()
    has_metadata: bool = False  # whether packages of this kind have METADATA, and it was read
    commits: tuple[tuple[str, str], ...] = ()  # (path of the file that states it, commit)
    gap: str = ""  # why the package could not be read; "" if it was


@dataclass(frozen=True, kw_only=True, slots=True)
class Release(Survey):
    """All packages that were named in one run."""

    noun: ClassVar[str] = "a whole release"
    parts: tuple[ReleasePart, ...] = ()  # by file name
    listed: tuple[str, ...] | None = None
    """All file names that the indexes list for these projects and versions, including the parts'
    names; None if no index was asked.
    """
    unlisted: str = ""  # why an index did not return a list; "" if each did
    # globs on file names; None: no particular set is expected
    expected: tuple[str, ...] | None = None
    expected_by: str = field(default="", compare=False)  # the file that lists them
