"""A published file before its download, and several published files together."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from packaging.tags import Tag

from binary_checks.model.packages import Package, Wheel

# Where a published package comes from, and what is stated there about it.


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """What an index, a channel or a server states about one file; empty fields are not stated."""

    asked: str = ""  # as the user named it: "numpy==2.4.6"
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
    sha256_taken: str = ""  # of the downloaded file; "" before the download


@dataclass(frozen=True, kw_only=True, slots=True)
class Survey:
    """The base class of facts that are gathered without reading a whole package.

    A check whose first parameter is such a fact runs before all others, and downloads nothing.
    """

    @property
    def shown(self) -> Package:
        """The package whose layout shortens the paths of findings."""
        return Package(path=Path())


@dataclass(frozen=True, kw_only=True, slots=True)
class Publication(Survey):
    """What is known about a file from where it is published, and from its name."""

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

    package: Package
    """Members have no hashes, except for the texts that were read; objects are known by their first
    bytes, and have default values for everything else. A conda package has what ``info/`` states.
    """
    requests: int = 0  # number of requests
    transferred: int = 0  # bytes
    began_anew: bool = False  # the file changed meanwhile, and was read again from the start

    @property
    def shown(self) -> Package:
        """The package itself."""
        return self.package


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedWheel(PublishedFile):
    """A published wheel."""

    package: Wheel


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleasePart:
    """The facts of one package of a release that must be the same in all of them."""

    file_name: str
    name: str = ""  # normalised
    version: str = ""
    requires: tuple[str, ...] = ()  # its Requires-Dist headers
    has_metadata: bool = False  # whether its kind has METADATA, which was read
    commits: tuple[tuple[str, str], ...] = ()  # (path of the file that states it, commit)
    gap: str = ""  # why it could not be read; "" if it was


@dataclass(frozen=True, kw_only=True, slots=True)
class Release(Survey):
    """All packages that were named in one run."""

    parts: tuple[ReleasePart, ...] = ()  # by file name
    listed: tuple[str, ...] | None = None
    """All file names that the indexes list for these projects and versions, including those of the
    parts; None if no index was asked."""
    unlisted: str = ""  # why an index that was asked gave no list
    # globs on file names; None: no particular set is expected
    expected: tuple[str, ...] | None = None
    expected_by: str = field(default="", compare=False)  # the file that lists them
