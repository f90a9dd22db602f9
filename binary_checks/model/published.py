"""What is known of a published file before it is downloaded, and of several files together."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from packaging.tags import Tag

from binary_checks.model.packages import Package, Wheel

# Where a package that is published comes from, and what is said of it there.


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """What an index, a channel or a server says of one file; what it does not say is empty."""

    asked: str = ""  # how the user named it: "numpy==2.4.6"
    kind: str  # "index", "url" or "channel"
    url: str = ""  # of the file, without credentials
    index: str = ""  # the URL of the index or the channel, without credentials
    sha256: str = ""  # that the index states, hexadecimal
    size: int | None = None  # bytes, that the index states (PEP 700)
    uploaded: str = ""  # when, as the index states it (PEP 700): "2026-11-21T03:12:45.123Z"
    modified: str = ""  # Last-Modified of the answer, as HTTP spells it
    requires_python: str | None = None  # that the index states; None: it states none
    yanked: str | None = None  # the reason, maybe ""; None: it is not yanked (PEP 592)
    metadata_hash: str = ""  # of the METADATA that the index serves (PEP 658), "sha256=<hex>"
    metadata: str = ""  # how METADATA came before the download: "PEP 658" or "ranges"; "": not
    attestation: str = ""  # "present, not verified" (PEP 740)
    serial: str = ""  # of the index's page, where it has one
    sha256_taken: str = ""  # of the file as it was downloaded; "" before that


@dataclass(frozen=True, kw_only=True, slots=True)
class Survey:
    """The base of facts that are gathered without reading a package as a whole.

    A check whose first parameter is one runs before all others, and downloads nothing.
    """

    @property
    def shown(self) -> Package:
        """The package by whose layout the paths of findings are shortened."""
        return Package(path=Path())


@dataclass(frozen=True, kw_only=True, slots=True)
class Publication(Survey):
    """What is said of a file where it is published, and by its name."""

    file_name: str
    name: str = ""  # by the file name, of a wheel normalised; "" where that says none
    version: str = ""
    tags: tuple[Tag, ...] = ()  # of a wheel
    provenance: Provenance
    metadata: tuple[tuple[str, str], ...] | None = None
    """The headers of the METADATA that the index serves beside the file (PEP 658)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedFile(Survey):
    """What ranges of a published file show: directory, texts, and how its libraries begin."""

    package: Package
    """Its members without hashes but those of its texts, and its objects by their first bytes;
    what these do not tell has its usual value. Of a conda package what ``info/`` says."""
    requests: int = 0  # that it took
    transferred: int = 0  # bytes
    began_anew: bool = False  # the file changed meanwhile, and was read from its start again

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
    """One package of a release, as far as it says what holds for all of them."""

    file_name: str
    name: str = ""  # normalised
    version: str = ""
    requires: tuple[str, ...] = ()  # its Requires-Dist
    has_metadata: bool = False  # whether its kind has a METADATA, which was read
    commits: tuple[tuple[str, str], ...] = ()  # (path of the file that says it, commit)
    gap: str = ""  # why it could not be read; "" where it was


@dataclass(frozen=True, kw_only=True, slots=True)
class Release(Survey):
    """All packages that were named in one run."""

    parts: tuple[ReleasePart, ...] = ()  # by file name
    listed: tuple[str, ...] | None = None
    """The file names that the indexes have of the same projects and versions, those of the parts
    included; None where no index was asked."""
    unlisted: str = ""  # why an index that was asked did not say
    expected: tuple[str, ...] | None = None  # globs on file names; None: no set is expected
    expected_by: str = field(default="", compare=False)  # the file that lists them


# A package's description as an index would show it.


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderedDescription:
    """What became of the description when the library of PyPI rendered it."""

    content_type: str = ""  # as METADATA states it; "" where it states none
    length: int = 0  # characters
    renders: bool | None = None  # None: it was not rendered, for the reason that is given
    reason: str = ""
    faults: tuple[str, ...] = ()  # what the renderer says of it, in its words
